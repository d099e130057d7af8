web:
  sites:
    shop:
      port: 8091
      root: /srv/zshop
    blog:
      port: 8092
      root: /srv/zblog
      enabled: false

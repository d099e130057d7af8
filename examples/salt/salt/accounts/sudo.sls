{%- from "accounts/map.jinja" import accounts with context %}
accounts-sudo:
  pkg.installed:
    - name: {{ accounts.sudo.pkg }}

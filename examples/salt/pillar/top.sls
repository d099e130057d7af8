base:
  '*':
    - accounts
    - web
    - clock

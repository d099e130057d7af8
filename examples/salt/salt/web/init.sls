{%- from "web/map.jinja" import web with context %}
include:
  - .sites

web-package:
  pkg.installed:
    - name: {{ web.pkg }}

web-service:
  service.running:
    - name: {{ web.service }}
    - enable: True
    - reload: True
    - require:
      - pkg: web-package

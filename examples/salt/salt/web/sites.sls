{%- from "web/map.jinja" import web with context %}
{%- macro switch(name, site) %}
{%-   if site.get('enabled', True) %}
  file.symlink:
    - name: {{ web.enabled }}/{{ name }}
    - target: {{ web.available }}/{{ name }}
{%-   else %}
  file.absent:
    - name: {{ web.enabled }}/{{ name }}
{%-   endif %}
    - require:
      - file: web-site-{{ name }}
    - watch_in:
      - service: web-service
{%- endmacro %}

{%- for name, site in web.sites.items() %}
web-root-{{ name }}:
  file.managed:
    - name: {{ site.root }}/index.html
    - contents: {{ name }}
    - makedirs: True

web-site-{{ name }}:
  file.managed:
    - name: {{ web.available }}/{{ name }}
    - source: salt://web/files/site.conf.jinja
    - template: jinja
    - context:
        name: {{ name }}
        site: {{ site | json }}
    - require:
      - pkg: web-package
      - file: web-root-{{ name }}
    - watch_in:
      - service: web-service

web-switch-{{ name }}:
{{- switch(name, site) }}
{% endfor %}

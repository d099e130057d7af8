{%- from "accounts/map.jinja" import accounts with context %}
{%- set groups = [] %}
{%- for user in accounts.get('users', {}).values() %}
{%-   do groups.extend(user.get('groups', [])) %}
{%- endfor %}

include:
  - .sudo

{%- for group in groups | unique %}
accounts-group-{{ group }}:
  group.present:
    - name: {{ group }}
{%- endfor %}

{%- for name, user in accounts.get('users', {}).items() %}
{%-   if user.get('absent', False) %}
accounts-user-{{ name }}:
  user.absent:
    - name: {{ name }}
    - purge: True
{%-   else %}
accounts-user-{{ name }}:
  user.present:
    - name: {{ name }}
    - fullname: {{ user.get('fullname', name) }}
    - shell: {{ user.get('shell', '/bin/bash') }}
    - home: {{ user.get('home', '/home/' ~ name) }}
    {%- if user.get('groups') %}
    - groups: {{ user.groups | json }}
    - require:
      {%- for group in user.groups %}
      - group: accounts-group-{{ group }}
      {%- endfor %}
    {%- endif %}
{%-     for key in user.get('keys', []) %}
accounts-key-{{ name }}-{{ loop.index }}:
  ssh_auth.present:
    - name: {{ key }}
    - user: {{ name }}
    - require:
      - user: accounts-user-{{ name }}
{%-     endfor %}
{%-     if user.get('sudo') %}
accounts-sudo-{{ name }}:
  file.managed:
    - name: {{ accounts.sudo.dir }}/{{ name }}
    - mode: '0440'
    - user: root
    - group: root
    - contents:
      {%- for rule in user.sudo %}
      - {{ (name ~ ' ' ~ rule) | yaml_dquote }}
      {%- endfor %}
    - check_cmd: {{ accounts.sudo.check }}
    - require:
      - pkg: accounts-sudo
      - user: accounts-user-{{ name }}
{%-     endif %}
{%-   endif %}
{%- endfor %}

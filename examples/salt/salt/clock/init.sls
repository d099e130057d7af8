{%- set clock = salt['pillar.get']('clock', {'servers': ['pool.ntp.org']}, merge=True) %}
{%- set os = salt['grains.filter_by']({
    'Debian': {'pkg': 'chrony', 'service': 'chrony', 'conf': '/etc/chrony/chrony.conf'},
    'RedHat': {'pkg': 'chrony', 'service': 'chronyd', 'conf': '/etc/chrony.conf'},
}) %}

clock:
  pkg.installed:
    - name: {{ os.pkg }}
  file.managed:
    - name: {{ os.conf }}
    - source: salt://clock/files/chrony.conf
    - template: jinja
    - defaults:
        options: {}
    - context:
        servers: {{ clock.servers | json }}
        options: {{ clock.get('options', {}) | json }}
    - require:
      - pkg: clock
  service.enabled:
    - name: {{ os.service }}
    - require:
      - pkg: clock

clock-restart:
  cmd.wait:
    - name: service {{ os.service }} restart || true
    - watch:
      - file: clock

clock:
  servers:
    - 0.debian.pool.ntp.org
    - 1.debian.pool.ntp.org
  options:
    makestep: 1.0 3

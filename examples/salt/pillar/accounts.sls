accounts:
  users:
    zdeploy:
      fullname: Deploy
      shell: /bin/sh
      groups:
        - zops
      keys:
        - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq0wjyyuTEMJzCTr7HNsz5xEtN5QtjrE4gFVRfCSXym deploy@example
      sudo:
        - 'ALL=(root) NOPASSWD: /usr/bin/systemctl reload nginx'
    zgone:
      absent: true

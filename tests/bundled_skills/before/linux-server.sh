# needs: systemd-analyze ss ps

# needs: skill-packages

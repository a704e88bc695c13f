# needs: dot

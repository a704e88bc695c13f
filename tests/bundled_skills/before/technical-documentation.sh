# needs: curl

# needs: nginx openssl

if printf '%s\n' 1.25.1 "$(nginx -v 2>&1 | sed 's#.*/##; s/ .*//')" | sort -VC; then
    grep -q '^    http2 on;' app.conf
else
    test "$(grep -c 'ssl http2;$' app.conf)" = 2
    if grep -q 'http2 on' app.conf; then exit 1; fi
fi
test "$(openssl x509 -pubkey -noout -in tls/fullchain.pem)" = "$(openssl pkey -pubout -in tls/privkey.pem)"
openssl genrsa -out other.pem 2048 2>/dev/null
cp app.conf kept.conf
sed -i "s#$PWD/tls/privkey.pem#$PWD/other.pem#" app.conf
if nginx -t -p "$PWD/sandbox" -c "$PWD/sandbox/nginx.conf"; then exit 1; fi
cp kept.conf app.conf
sed -i 's/proxy_pass/proxy_pas/' app.conf
if nginx -t -p "$PWD/sandbox" -c "$PWD/sandbox/nginx.conf"; then exit 1; fi

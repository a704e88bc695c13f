mkdir site
cat > site/list.html <<'HTML'
<html><body><h1>Shop</h1>
<table><tr><th>Tea<th>Price<tr><td>Green<td>4,50<tr><td>Black<td>3</table>
<div class="item"><h2>Green tea</h2><span class="price">4.50</span><a href="/green">more</a></div>
<div class="item big"><h2>Black tea</h2><span class="price">3</span><a href="/black">more</a></div>
</body></html>
HTML
echo '<h2 class="title">One</h2>' > site/page1.html
echo '<h2 class="title">Two</h2>' > site/page2.html
printf 'User-agent: *\nDisallow: /private\n' > site/robots.txt
python3 -u -m http.server -b 127.0.0.1 -d site 0 > server.log 2>&1 &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 500); do grep -q 'port [0-9]' server.log && break; sleep 0.02; done
export PAUSE=0 SITE="http://127.0.0.1:$(sed -nE 's/.*port ([0-9]+).*/\1/p' server.log | head -n 1)"

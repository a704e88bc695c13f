mkdir site
cat > site/feed.xml <<'XML'
<rss version="2.0"><channel><title>Tea News</title>
<item><title>Tea is &amp;amp; stays</title><link>/tea</link><pubDate>Wed, 01 May 2024 10:00:00 GMT</pubDate>
<description>&lt;p&gt;All about tea&lt;/p&gt;</description></item>
<item><title>Water</title><link>/water</link><guid>w1</guid></item></channel></rss>
XML
cat > site/atom.xml <<'XML'
<feed xmlns="http://www.w3.org/2005/Atom"><title>Atoms</title><entry><id>a1</id><title>Coffee</title>
<link rel="self" href="/self"/><link href="/coffee"/><updated>2024-05-02T10:00:00Z</updated></entry></feed>
XML
echo '<html><head><link rel="alternate" type="application/rss+xml" href="/feed.xml"></head></html>' > site/index.html
python3 -u -m http.server -b 127.0.0.1 -d site 0 > server.log 2>&1 &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 500); do grep -q 'port [0-9]' server.log && break; sleep 0.02; done
export SITE="http://127.0.0.1:$(sed -nE 's/.*port ([0-9]+).*/\1/p' server.log | head -n 1)"

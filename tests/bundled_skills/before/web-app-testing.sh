# needs: skill-packages chromium curl
export TMPDIR=$(TMPDIR=/tmp mktemp -d)  # the path of the browser's socket must be short
trap 'rm -rf "$TMPDIR"' EXIT
export PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir site fixed
page='<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tea</title><link rel="icon" href="data:,"></head><body><h1>Tea shop</h1>'
echo "$page<button></button><div style=\"width:900px\">wide</div><script>missing()</script></body></html>" > site/index.html
echo "$page<button>Buy</button></body></html>" > fixed/index.html

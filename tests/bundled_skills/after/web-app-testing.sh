python3 "$HERMES_SKILL_DIR/scripts/with_server.py" --server "python3 -m http.server -b 127.0.0.1 -d site $PORT" \
    --url "http://127.0.0.1:$PORT/" -- python3 check.py "http://127.0.0.1:$PORT/" --text "Coffee" > found && exit 1
grep -q 'phone: script: missing is not defined' found
grep -q 'phone: the page is .* pixels wider' found
grep -q 'desktop: 1 pictures or buttons have no name' found
grep -q 'desktop: flow: ' found
if grep -q 'desktop: the page is' found; then exit 1; fi
test -s after/phone.png
if curl -s "http://127.0.0.1:$PORT/"; then exit 1; fi

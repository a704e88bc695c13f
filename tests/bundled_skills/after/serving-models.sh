endpoint() { python3 "$HERMES_SKILL_DIR/scripts/endpoint.py" "$@"; }
endpoint check "$SERVER/v1" --tools --json --parallel 2 > found
grep -q '^models: tiny$' found
grep -q "^answer: 'ready', ended by stop$" found
grep -q '3 tokens, .* tokens/s$' found
grep -q "^tools: get_weather({'city': 'Oslo'})$" found
grep -q '^json: {"city": "Oslo", "people": 700000}$' found
grep -q '^2 at once: ' found
endpoint check "$SERVER" 2> found && exit 1
grep -q 'error: /models: ' found
test "$(endpoint memory --params 8 --bits 16 --context 8192)" = 'weights 14.9 GiB, context 1.0 GiB, in all 17.2 GiB'

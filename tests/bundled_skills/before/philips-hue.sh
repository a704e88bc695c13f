python3 "$HERMES_SKILL_DIR/../../../tests/bundled_skills/everyday_servers.py" hue port &
servers="${servers:-} $!"
trap 'kill $servers' EXIT
for _ in $(seq 500); do [ -s port ] && break; sleep 0.02; done
export HUE_BRIDGE="http://127.0.0.1:$(cat port)" HUE_KEY=the-key

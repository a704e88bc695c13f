python3 "$HERMES_SKILL_DIR/../../../tests/bundled_skills/everyday_servers.py" home-assistant port &
servers="${servers:-} $!"
trap 'kill $servers' EXIT
for _ in $(seq 500); do [ -s port ] && break; sleep 0.02; done
export HASS_URL="http://127.0.0.1:$(cat port)" HASS_TOKEN=a-long-lived-token

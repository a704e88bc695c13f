python3 "$HERMES_SKILL_DIR/../../../tests/bundled_skills/everyday_mail.py" variables.sh &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 500); do [ -s variables.sh ] && break; sleep 0.02; done
. ./variables.sh

scan() { python3 "$HERMES_SKILL_DIR/scripts/secret_scan.py" "$@"; }
test "$(grep -c . findings.txt)" = 1
grep -q '  app.py:2  password in an address  post…$' findings.txt
scan . --history > found && exit 1
grep -qE '  [0-9a-f]+ old.py  AWS key  AKIA…$' found
test "$(grep -c . found)" = 2
scan nowhere 2> found && exit 1
grep -q 'there is no folder nowhere' found

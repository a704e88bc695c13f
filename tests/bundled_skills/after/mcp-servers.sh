test "$(cat notes/Cup.md)" = blue
probe() { NOTES=notes python3 "$HERMES_SKILL_DIR/scripts/mcp_probe.py" "$@"; }
probe --call read_note '{"name": "../secret"}' -- python3 server.py > found && exit 1
grep -q "read_note (error): .*is no name" found
probe --call add_note '{"name": "Cup", "text": "red"}' -- python3 server.py > found && exit 1
grep -q 'there is a note' found
grep -q '^- search_notes(words): Find notes' found
sed 's/server.run()/print("hello", flush=True); server.run()/' server.py > noisy.py
probe -- python3 noisy.py > found && exit 1
grep -q "no message on standard output: 'hello'" found
probe -- false 2> found && exit 1
grep -q 'the server ended' found

test "$(cat talk.txt)" = '[00:00:00] Hello there.
[01:01:01] Tea is redy'
grep -qx '01:01:01,040 --> 01:01:02,000' talk.srt
python3 -c 'import json; assert [row["doubtful"] for row in json.load(open("talk.json"))] == [False, True]'
transcribe() { python3 "$HERMES_SKILL_DIR/scripts/transcribe.py" talk.wav --language en --words Hermes "$@"; }
transcribe 2> found && exit 1
grep -q 'talk.txt is already there; use --force' found
transcribe --force | grep -q '?? 01:01:01 Tea is redy'

test "$(cat meeting.txt)" = '[00:00:01] Ann B.: we ship on Friday. Bob writes the notes.
[00:00:07] Bob: Fine, by Thursday.'
grep -q Friday parts/part-01.txt

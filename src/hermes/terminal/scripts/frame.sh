# The output of SCRIPT is enclosed by two marks.
mark=$1
shift
export LC_ALL=C
unset CDPATH
printf %s "$mark"
printf %s "$mark" >&2
watcher=
WATCH
(
SCRIPT
)
code=$?
[ -z "$watcher" ] || kill "$watcher" 2>/dev/null
printf '%s%s\0' "$mark" "$code"

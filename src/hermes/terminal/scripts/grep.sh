# $1 is the expression for grep -P, $2 for grep -E or empty, $3 the lines of context, $4 the bytes
# kept of a line, $5 the bytes inspected to distinguish text from binary; paths come on standard
# input.
#include fail
text= kind=-E pattern=$2
printf x | grep -a x >/dev/null 2>&1 && text=-a
printf x | grep -P x >/dev/null 2>&1 && kind=-P pattern=$1
[ "$pattern" ] || fail ENOSYS
told=$(grep $kind -e "$pattern" </dev/null 2>&1)
[ $? -lt 2 ] || { printf %s "$told" >&2; exit 2; }
around=
[ "$3" -eq 0 ] || around=-C$3
size() { echo "$(($(wc -c)))"; }
xargs -0 grep $text -l $kind -e "$pattern" -- 2>/dev/null | while IFS= read -r file; do
  # As ripgrep does: where a link leads is unknown here, and may be a protected file.
  [ -h "$file" ] && continue
  [ "$(head -c "$5" "$file" | size)" = "$(head -c "$5" "$file" | tr -d '\000' | size)" ] || continue
  printf '%s\0' "$file"
  grep $text -n $around $kind -e "$pattern" -- "$file" 2>/dev/null | tr -d '\000' | cut -b "1-$4"
  printf '\0'
done

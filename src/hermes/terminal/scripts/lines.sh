# $2 and $3 are the first and last line of the page, $4 the bytes kept of a line, $5 the bytes after
# the page that are counted, $6 those inspected to distinguish text from binary. No program here
# holds more than a line, and only `cut` holds that.
#include regular
size() { echo "$(($(wc -c)))"; }
if [ "$(head -c "$6" "$1" | size)" != "$(head -c "$6" "$1" | tr -d '\000' | size)" ]; then
  printf binary
  exit 0
fi
counted=$(($(head -n "$3" "$1" | size) + $5))
lines=$(($(head -c "$counted" "$1" | wc -l)))
complete=no
if [ "$all" -le "$counted" ]; then
  complete=yes
  [ "$all" -eq 0 ] || [ "$(($(tail -c 1 "$1" | wc -l)))" -eq 1 ] || lines=$((lines + 1))
fi
printf '%s %s\0' "$lines" "$complete"
tail -n "+$2" "$1" | head -n "$(($3 - $2 + 1))" | cut -b "1-$4"

# While the script works, its standard input is watched: when this side goes away, the whole process
# group is stopped. The script must lead that group, or the signal would hit others.
exec 3<&0 </dev/null
watcher=
if kill -0 "-$$" 2>/dev/null; then
  { while read -r _; do :; done; kill -TERM 0; } <&3 3<&- >/dev/null 2>&1 &
  watcher=$!
fi
exec 3<&-

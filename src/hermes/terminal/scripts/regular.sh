#include fail
if [ ! -e "$1" ]; then
  [ -d "${1%/*}/" ] || [ ! -e "${1%/*}" ] || fail ENOTDIR
  fail ENOENT
fi
[ ! -d "$1" ] || fail EISDIR
[ -f "$1" ] || fail EINVAL
[ -r "$1" ] || fail EACCES
# busybox reads all of a file to tell its length; files of /proc say that they are empty.
all=$(stat -L -c %s "$1" 2>/dev/null || stat -L -f %z "$1" 2>/dev/null || echo 0)
[ "$all" -gt 0 ] || all=$(($(wc -c <"$1")))

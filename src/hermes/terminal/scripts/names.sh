#include fail
[ -e "$1" ] || fail ENOENT
[ -d "$1" ] || fail ENOTDIR
[ -r "$1" ] && cd -- "$1" || fail EACCES
for name in * .[!.]* ..?*; do
  if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\0' "$name"; fi
done

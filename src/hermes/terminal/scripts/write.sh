# $2 is the size of the data, $3 a temporary name for the new file. If the folder is not writable,
# the file is overwritten in place. The owner is set first, because that clears mode bits.
#include reach
if [ ! -d "$folder" ]; then
  told=$(mkdir -p -- "$folder" 2>&1) || case $told in
  *'File exists'*) fail ENOTDIR ;;
  *) printf %s "$told" >&2; exit 1 ;;
  esac
fi
#include enter
whole() { [ "$(($(wc -c <"$1")))" = "$size" ]; }
size=$2 new=./$3
trap 'rm -f "$new"' EXIT
if (set -C; : >"$new") 2>/dev/null; then
  cat >"$new" || exit 1
  whole "$new" || fail EIO
  if [ -f "./$name" ]; then
    owner=$(stat -c %u:%g "./$name" 2>/dev/null || stat -f %u:%g "./$name")
    mode=$(stat -c %a "./$name" 2>/dev/null || stat -f %Lp "./$name")
    chown "$owner" "$new" 2>/dev/null
    chmod "$mode" "$new" || exit 1
  fi
  mv -f "$new" "./$name"
elif [ -f "./$name" ] && [ -w "./$name" ]; then
  new=$(mktemp) || exit 1
  cat >"$new" || exit 1
  whole "$new" || fail EIO
  cat "$new" >"./$name"
else
  : >"$new"
fi

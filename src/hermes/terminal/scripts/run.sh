#include wrapper
take || { report short; over; }
command -v setsid >/dev/null 2>&1 && set -- setsid "$@"
"$@"
report "$?"
if [ -f "$state/$tag.cwd" ]; then
  cat "$state/$tag.cwd" >&2
  printf '\0' >&2
  cmp -s "$state/$tag.exports" "$state/exports" 2>/dev/null || cat "$state/$tag.exports" >&2
  mv -f "$state/$tag.exports" "$state/exports"
fi
over

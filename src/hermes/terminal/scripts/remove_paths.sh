# Files and links first, then folders that are empty now, deepest first.
xargs -0 sh -c 'for path do
  if [ -d "$path" ] && [ ! -L "$path" ]; then rmdir -- "$path" 2>/dev/null || :
  else rm -f -- "$path" || exit 1; fi
done' sh

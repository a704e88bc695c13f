# Prints that top or the folder itself; then each .git (with its info/exclude) and .gitignore below
# it, as path and text; an empty path; then the files below the folder. With $2, also those in
# hidden folders.
#include top
cd -- "$1" 2>/dev/null || exit 0
top=${top:-$1}
printf '%s\0' "$top"
tell='for file do
  printf "%s\0" "$file"
  case $file in */.git) file=$file/info/exclude ;; esac
  [ ! -f "$file" ] || tr -d "\000" <"$file"
  printf "\0"
done'
up=${1%/}
while [ "${up:-/}" != "$top" ]; do
  up=${up%/*}
  sh -c "$tell" sh "$up/.git" "$up/.gitignore"
done
if [ "$2" ]; then skip=.git; else skip='.?*'; fi
find . -name .git -prune -exec sh -c "$tell" sh {} + \
  -o -name .gitignore -type f -exec sh -c "$tell" sh {} + \
  -o -type d -name "$skip" -prune 2>/dev/null
printf '\0'
find . -name .git -prune -o -type d -name "$skip" -prune \
  -o \( -type f -o -type l -exec test -f {} \; \) -print0 2>/dev/null

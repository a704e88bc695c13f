# Prints the top of the git repository that contains $1; nothing if there is none.
top= up=${1%/}
while :; do
  if [ -e "$up/.git" ]; then top=${up:-/}; break; fi
  [ "$up" ] || break
  up=${up%/*}
done

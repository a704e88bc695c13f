# Only shell builtins, apart from `sleep` and `rm`.
trap '' HUP INT TERM
groups=' ' members=' '
while read -r sign group; do
  kept=' '
  for known in $groups; do [ "$known" = "$group" ] || kept="$kept$known "; done
  groups=$kept
  [ "$sign" = + ] && groups="$groups$group "
done
#include family
# A look at all processes takes time that grows with their number, so it needs a reason.
if [ "$groups" != ' ' ] && alive; then
  signal TERM
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.1
    alive || break
  done
  signal KILL
fi
rm -rf -- "$1"

#include reach
#include enter
[ -e "./$name" ] || fail ENOENT
rm -f "./$name"

#include regular
[ "$all" -le "$2" ] || fail EFBIG
head -c "$(($2 + 1))" "$1"

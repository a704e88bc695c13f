# The folder is entered first and compared afterwards: a link placed in its path later has no
# effect.
#include fail
#include resolve
folder=${1%/*} name=${1##*/}
folder=${folder:-/}
resolve "$folder"
[ "$real" = "$folder" ] || fail ELOOP

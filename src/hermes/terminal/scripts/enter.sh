[ -e "$folder" ] || fail ENOENT
[ -d "$folder" ] || fail ENOTDIR
cd -P -- "$folder" 2>/dev/null || fail EACCES
here=$(pwd -P; printf x)
[ "${here%?x}" = "$folder" ] || fail ELOOP
[ ! -L "./$name" ] || fail ELOOP
[ ! -d "./$name" ] || fail EISDIR
[ ! -e "./$name" ] || [ -f "./$name" ] || fail EINVAL

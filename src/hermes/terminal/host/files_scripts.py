"""What `sh` does on a host for each operation on files. Arguments are paths as they are.

A known failure is told as `!ENAME` on standard error; others as the programs put it.
"""

FAIL = r"""
fail() {
  printf '!%s' "$1" >&2
  exit 1
}
"""

REGULAR = (
    FAIL
    + r"""
if [ ! -e "$1" ]; then
  [ -d "${1%/*}/" ] || [ ! -e "${1%/*}" ] || fail ENOTDIR
  fail ENOENT
fi
[ ! -d "$1" ] || fail EISDIR
[ -f "$1" ] || fail EINVAL
[ -r "$1" ] || fail EACCES
# busybox reads all of a file to tell its length; files of /proc say that they are empty.
all=$(stat -L -c %s "$1" 2>/dev/null || stat -L -f %z "$1" 2>/dev/null || echo 0)
[ "$all" -gt 0 ] || all=$(($(wc -c <"$1")))
"""
)

# By hand, since `realpath -m` is not everywhere. Sets `real`; what is missing stays as it is.
RESOLVE = r"""
resolve() {
  real= rest=$1 links=0
  while [ "$rest" ]; do
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    case $part in
    '' | .) ;;
    ..) real=${real%/*} ;;
    *)
      if [ -L "$real/$part" ] && [ "$links" -lt 40 ]; then
        links=$((links + 1))
        target=$(readlink -n "$real/$part" && printf x) || target=${part}x
        target=${target%x}
        case $target in /*) real= ;; esac
        rest=$target/$rest
      else
        real=$real/$part
      fi ;;
    esac
  done
  real=${real:-/}
}
"""

# $1 is the shell's folder, $2 the path, $3 what else it may mean.
LOCATE = (
    RESOLVE
    + r"""
absolute() {
  case $1 in
  '~' | '~/'*) whole=$HOME${1#?} ;;
  /*) whole=$1 ;;
  *) whole=$folder/$1 ;;
  esac
}
folder=$(pwd; printf x)
folder=${folder%?x}
[ -z "$1" ] || { absolute "$1"; folder=$whole; }
absolute "$2"
resolve "$whole"
found=$real
if [ "$3" ] && [ ! -e "$real" ] && [ ! -L "$real" ]; then
  absolute "$3"
  resolve "$whole"
  if [ -e "$real" ] || [ -L "$real" ]; then found=$real; fi
fi
printf %s "$found"
"""
)

# GNU and busybox know -c, BSD -f; where there is neither, the shell itself can tell the kind.
STAT = (
    FAIL
    + r"""
told=$(stat -L -c '%f %s %.9Y' "$1" 2>&1) && { printf %s "$told"; exit 0; }
case $told in
*'No such file'* | *'Not a directory'*) exit 0 ;;
*'Permission denied'*) fail EACCES ;;
*'symbolic links'*) fail ELOOP ;;
*'too long'*) fail ENAMETOOLONG ;;
esac
told=$(stat -L -f '%Xp %z %Fm' "$1" 2>/dev/null) && { printf %s "$told"; exit 0; }
if [ -d "$1" ]; then printf '4000 0 0'
elif [ -f "$1" ]; then printf '8000 %s 0' "$(($(wc -c <"$1")))"
elif [ -e "$1" ]; then printf '1000 0 0'; fi
"""
)

NAMES = (
    FAIL
    + r"""
[ -e "$1" ] || fail ENOENT
[ -d "$1" ] || fail ENOTDIR
[ -r "$1" ] && cd -- "$1" || fail EACCES
for name in * .[!.]* ..?*; do
  if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\0' "$name"; fi
done
"""
)

# $2 and $3 are the first and the last line of the page, $4 the bytes kept of a line, $5 the bytes
# after the page that are counted, $6 those looked at to tell text from binary. No program here
# holds more than a line, and none but `cut` that.
LINES = (
    REGULAR
    + r"""
size() { echo "$(($(wc -c)))"; }
if [ "$(head -c "$6" "$1" | size)" != "$(head -c "$6" "$1" | tr -d '\000' | size)" ]; then
  printf binary
  exit 0
fi
counted=$(($(head -n "$3" "$1" | size) + $5))
lines=$(($(head -c "$counted" "$1" | wc -l)))
complete=no
if [ "$all" -le "$counted" ]; then
  complete=yes
  [ "$all" -eq 0 ] || [ "$(($(tail -c 1 "$1" | wc -l)))" -eq 1 ] || lines=$((lines + 1))
fi
printf '%s %s\0' "$lines" "$complete"
tail -n "+$2" "$1" | head -n "$(($3 - $2 + 1))" | cut -b "1-$4"
"""
)

READ = (
    REGULAR
    + r"""
[ "$all" -le "$2" ] || fail EFBIG
head -c "$(($2 + 1))" "$1"
"""
)

# The folder is entered and only then compared: from there on a link put in its way leads nowhere.
REACH = (
    FAIL
    + RESOLVE
    + r"""
folder=${1%/*} name=${1##*/}
folder=${folder:-/}
resolve "$folder"
[ "$real" = "$folder" ] || fail ELOOP
"""
)

ENTER = r"""
[ -e "$folder" ] || fail ENOENT
[ -d "$folder" ] || fail ENOTDIR
cd -P -- "$folder" 2>/dev/null || fail EACCES
here=$(pwd -P; printf x)
[ "${here%?x}" = "$folder" ] || fail ELOOP
[ ! -L "./$name" ] || fail ELOOP
[ ! -d "./$name" ] || fail EISDIR
[ ! -e "./$name" ] || [ -f "./$name" ] || fail EINVAL
"""

# $2 is the size of what comes, $3 a name for the new file until it takes its place. A file in a
# folder that is closed to us is written where it is. Owner first: a new owner takes mode bits away.
WRITE = (
    REACH
    + r"""
if [ ! -d "$folder" ]; then
  told=$(mkdir -p -- "$folder" 2>&1) || case $told in
  *'File exists'*) fail ENOTDIR ;;
  *) printf %s "$told" >&2; exit 1 ;;
  esac
fi
"""
    + ENTER
    + r"""
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
"""
)

REMOVE = (
    REACH
    + ENTER
    + r"""
[ -e "./$name" ] || fail ENOENT
rm -f "./$name"
"""
)

# The top of the git repository that $1 is in; empty when it is in none.
TOP = r"""
top= up=${1%/}
while :; do
  if [ -e "$up/.git" ]; then top=${up:-/}; break; fi
  [ "$up" ] || break
  up=${up%/*}
done
"""

# First that top, or the folder itself; then each .git (with its info/exclude) and .gitignore from
# there down, as path and text; an empty path; then the files below the folder. With $2 those in
# hidden folders too.
FILES = (
    TOP
    + r"""
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
"""
)

# $1 the expression for grep -P, $2 for grep -E or empty, $3 lines of context, $4 bytes kept of a
# line, $5 bytes looked at to tell text from binary; paths come on standard input.
GREP = (
    FAIL
    + r"""
text= kind=-E pattern=$2
printf x | grep -a x >/dev/null 2>&1 && text=-a
printf x | grep -P x >/dev/null 2>&1 && kind=-P pattern=$1
[ "$pattern" ] || fail ENOSYS
told=$(grep $kind -e "$pattern" </dev/null 2>&1)
[ $? -lt 2 ] || { printf %s "$told" >&2; exit 2; }
around=
[ "$3" -eq 0 ] || around=-C$3
size() { echo "$(($(wc -c)))"; }
xargs -0 grep $text -l $kind -e "$pattern" -- 2>/dev/null | while IFS= read -r file; do
  [ "$(head -c "$5" "$file" | size)" = "$(head -c "$5" "$file" | tr -d '\000' | size)" ] || continue
  printf '%s\0' "$file"
  grep $text -n $around $kind -e "$pattern" -- "$file" 2>/dev/null | tr -d '\000' | cut -b "1-$4"
  printf '\0'
done
"""
)

# $1 is the place that is searched, the rest what rg gets. Outside of a repository the rules of
# folders above do not count.
RIPGREP = (
    r"""
command -v rg >/dev/null 2>&1 || exit 97
"""
    + TOP
    + r"""
shift
[ "$top" ] || set -- --no-ignore-parent "$@"
exec rg "$@"
"""
)

NO_RIPGREP = 97

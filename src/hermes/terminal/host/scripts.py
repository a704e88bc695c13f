"""The POSIX `sh` scripts that run on a host, as data: the session shell, then file operations.

The commands of a session share a private folder there: `exports` holds the variables that the last
one left, `leash` is a pipe to the supervisor, which stops what is left when this side goes away.
"""

from hermes.terminal.local.lifeline import FAMILY_FUNCTIONS

GRACE_TENTHS = 6  #: Tenths of a second between SIGTERM and SIGKILL.

# Commands write `+ TAG GROUP`, this side writes `kill TAG`; both arrive through one pipe. A kill
# for an unknown tag is remembered. If the supervisor was killed, its list remains and the next one
# ($3 is the old folder) takes it over. At the end the folder is renamed, so that no command can
# start any more while earlier messages are still read. `look` finds descendants, as in the
# lifeline; without /proc only the groups are stopped.
SUPERVISOR = r"""
trap '' HUP INT QUIT TERM PIPE
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/hermes-shell-XXXXXXXX") && mkfifo "$folder/leash" || exit 1
case $2 in '') ;; '~' | '~/'*) cd -- "$HOME${2#?}" ;; *) cd -- "$2" ;; esac 2>/dev/null
exec 3<>"$folder/leash" 4<&0 </dev/null
printf '%s%s\0%s\0' "$1" "$folder" "$PWD"
{ while IFS= read -r line; do printf '%s\n' "$line" >&3; done; echo end >&3; } <&4 >/dev/null 2>&1 &
exec 4<&- 2>/dev/null
cd /
FAMILY
finish() {
  groups=$1 members=' ' looks=0
  alive || return
  signal TERM
  while [ "$looks" -lt LOOKS ]; do
    sleep 0.1 || sleep 1
    alive || return
    looks=$((looks + 1))
  done
  signal KILL
}
known=' ' doomed=' '
[ -z "$3" ] || { read -r known <"$3/known" && known=" $known "; }
while read -r what tag group <&3; do
  case $what in
  +)
    kept=' '
    for each in $known; do kill -0 "-${each#*:}" && kept="$kept$each "; done
    known="$kept$tag:$group "
    printf '%s\n' "$known" >"$folder/known"
    case $doomed in *" $tag "*) (finish " $group ") & ;; esac ;;
  kill)
    doomed="$doomed$tag "
    for each in $known; do
      case $each in "$tag:"*) (finish " ${each#*:} ") & ;; esac
    done ;;
  end)
    mv "$folder" "$folder.end" && folder=$folder.end
    echo last >&3 ;;
  last) break ;;
  esac
done
left=' '
for each in $known; do left="$left${each#*:} "; done
[ "$left" = ' ' ] || finish "$left"
rm -rf -- "$folder"
[ -z "$3" ] || rm -rf -- "$3"
""".replace("LOOKS", str(GRACE_TENTHS)).replace("FAMILY", FAMILY_FUNCTIONS)


# The wrapper is not in the command's process group and so survives its `kill 0`. It changes the
# folder, because `~` is the host's; the command gets the logical name. An incomplete command must
# never run: `take` compares sizes. The report goes to standard error, which the command does not
# have.
WRAPPER = r"""
mark=$1 state=$2 tag=$3 size=$7 inner=$8
printf %s "$mark"
unset CDPATH
over() {
  printf '\0%s' "$mark" >&2
  printf %s "$mark"
  rm -f "$state/$tag" "$state/$tag."*
  exit 0
}
report() { printf '%s%s\0' "$mark" "$1" >&2; }
take() { cat >"$state/$tag" && [ "$(($(wc -c <"$state/$tag")))" = "$size" ]; }
enter() {
  cd -- "$1" 2>/dev/null || cd -- "$2" 2>/dev/null || cd || cd /
  case $3 in
  '') ;;
  '~' | '~/'*) cd -- "$HOME${3#?}" 2>/dev/null ;;
  *) cd -- "$3" 2>/dev/null ;;
  esac
}
enter "$4" "$5" "$6" || { report folder; over; }
shell=$(command -v bash) && set -- "$shell" --noprofile --norc || set -- "$(command -v sh)"
set -- "$@" -c "$inner" shell "$PWD"
[ ! -f "$state/exports" ] || set -- env -i "$@"
"""

RUN = (
    WRAPPER
    + r"""
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
"""
)

START = (
    WRAPPER
    + r"""
command -v setsid >/dev/null 2>&1 && set -- setsid "$@"
"$@"
report "$?"
over
"""
)

# In a terminal the wrapper leads the session, and its end is the end of the terminal. It survives a
# Ctrl-C in order to report the exit code: ssh does not report which signal ended a program.
START_TERMINAL = (
    WRAPPER
    + r"""
stty sane cols 120 rows 40 2>/dev/null
trap : INT QUIT
"$@"
exit "$?"
"""
)

UPLOAD = 'cat >"$1" && [ "$(($(wc -c <"$1")))" = "$2" ]'

# Begins the script of a command. Its streams are redirected there and not by the wrapper, whose
# messages about a killed command must not be shown. The group is the command's own where `setsid`
# exists, else the wrapper's.
BEGIN = r"""
if kill -0 "-$$" 2>/dev/null; then set -- "$1" "$$"; else set -- "$1" "$PPID"; fi
printf '+ %s %s\n' {tag} "$2" 1<>{leash} || exit 126
"""


# File operations. Arguments are paths, unquoted.
#
# A known failure is reported as `!ENAME` on standard error; others in the words of the programs.

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

# Written by hand, because `realpath -m` is not available everywhere. Sets `real`; missing parts are
# kept as they are.
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

# $1 is the shell's folder, $2 the path, $3 an alternative reading of it.
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

# GNU and busybox support -c, BSD -f; without either, the shell itself determines the kind.
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

# $2 and $3 are the first and last line of the page, $4 the bytes kept of a line, $5 the bytes after
# the page that are counted, $6 those inspected to distinguish text from binary. No program here
# holds more than a line, and only `cut` holds that.
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

# The folder is entered first and compared afterwards: a link placed in its path later has no
# effect.
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

# $2 is the size of the data, $3 a temporary name for the new file. If the folder is not writable,
# the file is overwritten in place. The owner is set first, because that clears mode bits.
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

# Prints the top of the git repository that contains $1; nothing if there is none.
TOP = r"""
top= up=${1%/}
while :; do
  if [ -e "$up/.git" ]; then top=${up:-/}; break; fi
  [ "$up" ] || break
  up=${up%/*}
done
"""

# Prints that top or the folder itself; then each .git (with its info/exclude) and .gitignore below
# it, as path and text; an empty path; then the files below the folder. With $2, also those in
# hidden folders.
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

# $1 is the expression for grep -P, $2 for grep -E or empty, $3 the lines of context, $4 the bytes
# kept of a line, $5 the bytes inspected to distinguish text from binary; paths come on standard
# input.
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

# $1 is the place that is searched, the rest are arguments of rg. Outside a repository the rules of
# folders above do not apply.
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

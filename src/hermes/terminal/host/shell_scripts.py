"""What a shell on another machine is told to do around a command. POSIX `sh`, few other programs.

The commands of a session share a private folder there: `exports` holds the variables the last one
left, `leash` is a pipe to the keeper, which ends what is left when our side goes away.
"""

import shlex

from hermes.terminal.family_script import FAMILY

GRACE_LOOKS = 6
"""Tenths of a second between SIGTERM and SIGKILL."""

# `+ TAG GROUP` comes from the commands, `kill TAG` from us; both arrive through the one pipe. A tag
# that is to be killed before it is known is remembered. A keeper that was killed leaves its list
# behind, and the next one ($3 is the old folder) takes it over. At the end the folder gets another
# name, so that no command can begin any more, and what was said before is still heard. `look`
# finds descendants, as the lifeline does; without /proc the groups alone are stopped.
KEEPER = r"""
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
""".replace("LOOKS", str(GRACE_LOOKS)).replace("FAMILY", FAMILY)


# The wrapper is not of the command's process group and so outlives its `kill 0`. It enters the
# folder, since `~` is the host's; the command gets the logical name. Half a command must never
# run: `take` compares sizes. The report goes to standard error, which the command does not have.
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

# In a terminal the wrapper leads the session, and its end is the end of the terminal. It outlives a
# Ctrl-C so that the exit code is told: ssh does not tell which signal ended a program.
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

# Redirected here and not by the wrapper, whose remarks on a killed command nobody shall see.
# The group is the command's own where there is `setsid`, else the wrapper's. `cd` comes before the
# saved variables, which put OLDPWD back.
BEGIN = r"""
if kill -0 "-$$" 2>/dev/null; then set -- "$1" "$$"; else set -- "$1" "$PPID"; fi
printf '+ %s %s\n' {tag} "$2" 1<>{leash} || exit 126
cd -- "$1" || exit 126
set -- "$PWD"
if [ -f {exports} ]; then . {exports} 2>/dev/null; elif [ -f {first} ]; then . {first}; fi
PWD=$1
set --
"""

FOREGROUND = "exec </dev/null 2>&1\n" + BEGIN + "trap {trap} EXIT\n. {command}\n"

# It survives `exit`, `set -e` and a syntax error; `command` and `>|` keep it working after
# functions of those names and `set -C`.
TRAP = 'command export -p >|{command}.exports; command printf "%s\\n" "$PWD" >|{command}.cwd'

# Read into memory, so that messages do not begin with the name of a private file.
BACKGROUND = (
    "exec 2>&1\n"
    + BEGIN
    + r"""
{terminal}
hermes_text=$(command -p cat {command}) || exit 126
command -p rm -f {command}
set -- "$hermes_text"
unset hermes_text
eval "shift; $1"
"""
)

TERMINAL = "case ${TERM:-dumb} in dumb) export TERM=xterm-256color ;; esac"


def foreground(folder: str, tag: str) -> str:
    """The script of a command whose folder and variables are kept."""
    names = _names(folder, tag)
    return FOREGROUND.format(trap=shlex.quote(TRAP.format(**names)), **names)


def background(folder: str, tag: str, *, terminal: bool) -> str:
    """The script of a command that changes nothing for others."""
    return BACKGROUND.format(terminal=TERMINAL if terminal else "", **_names(folder, tag))


def _names(folder: str, tag: str) -> dict[str, str]:
    files = {
        name: shlex.quote(f"{folder}/{file}")
        for name, file in (
            ("command", tag),
            ("leash", "leash"),
            ("exports", "exports"),
            ("first", "first"),
        )
    }
    return {"tag": tag, **files}

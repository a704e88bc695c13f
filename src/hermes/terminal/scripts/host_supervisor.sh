# Commands write `+ TAG GROUP`, this side writes `kill TAG`; both arrive through one pipe. A kill
# for an unknown tag is remembered. If the supervisor was killed, its list remains and the next one
# ($3 is the old folder) takes it over. At the end the folder is renamed, so that no command can
# start any more while earlier messages are still read. `look` finds descendants, as in the
# lifeline; without /proc only the groups are stopped.
trap '' HUP INT QUIT TERM PIPE
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/hermes-shell-XXXXXXXX") && mkfifo "$folder/leash" || exit 1
case $2 in '') ;; '~' | '~/'*) cd -- "$HOME${2#?}" ;; *) cd -- "$2" ;; esac 2>/dev/null
exec 3<>"$folder/leash" 4<&0 </dev/null
printf '%s%s\0%s\0' "$1" "$folder" "$PWD"
{ while IFS= read -r line; do printf '%s\n' "$line" >&3; done; echo end >&3; } <&4 >/dev/null 2>&1 &
exec 4<&- 2>/dev/null
cd /
#include family
finish() {
  groups=$1 members=' ' looks=0
  alive || return
  signal TERM
  while [ "$looks" -lt 6 ]; do
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

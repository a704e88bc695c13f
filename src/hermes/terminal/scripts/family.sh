# Functions that find and signal processes with all their descendants.
#
# They use only shell builtins, and forms of `kill` on which BusyBox, dash and bash agree. A line of
# /proc/N/stat is `N (any name) state parent group …`; zombies do not count. Without /proc only
# groups are known. `groups` and `members` are lists with a blank at both ends.
look() {
  table= living=' ' known=$members members=' ' grown=yes
  for file in /proc/[0-9]*/stat; do
    read -r line <"$file" || continue
    process=${file#/proc/} process=${process%/stat}
    set -- ${line##*) }
    [ "$1" = Z ] || table="$table $process $2 $3" living="$living$process "
  done
  for process in $known; do
    case "$living" in *" $process "*) members="$members$process " ;; esac
  done
  while [ "$grown" ]; do
    grown=
    set -- $table
    while [ $# -ge 3 ]; do
      case "$members" in *" $1 "*) ;; *)
        case "$groups" in *" $3 "*) members="$members$1 " grown=yes ;; *)
          case "$members" in *" $2 "*) members="$members$1 " grown=yes ;; esac ;;
        esac ;;
      esac
      shift 3
    done
  done
}
alive() {
  look
  [ "$members" = ' ' ] || return 0
  [ "$table" ] && return 1
  for group in $groups; do kill -0 "-$group" && return 0; done
  return 1
}
signal() {
  for group in $groups; do kill "-$1" "-$group"; done
  for process in $members; do kill "-$1" "$process"; done
}

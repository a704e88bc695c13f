# The wrapper is not in the command's process group and so survives its `kill 0`. It changes the
# folder, because `~` is the host's; the command gets the logical name. An incomplete command must
# never run: `take` compares sizes. The report goes to standard error, which the command does not
# have.
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

# $1 is the shell's folder, $2 the path, $3 an alternative reading of it.
#include resolve
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

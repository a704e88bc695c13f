# GNU and busybox support -c, BSD -f; without either, the shell itself determines the kind.
#include fail
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

# Begins the script of a command. Its streams are redirected there and not by the wrapper, whose
# messages about a killed command must not be shown. The group is the command's own where `setsid`
# exists, else the wrapper's.
if kill -0 "-$$" 2>/dev/null; then set -- "$1" "$$"; else set -- "$1" "$PPID"; fi
printf '+ %s %s\n' {tag} "$2" 1<>{leash} || exit 126

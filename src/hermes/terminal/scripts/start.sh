#include wrapper
command -v setsid >/dev/null 2>&1 && set -- setsid "$@"
"$@"
report "$?"
over

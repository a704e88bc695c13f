# $1 is the place that is searched, the rest are arguments of rg. Outside a repository the rules of
# folders above do not apply.
command -v rg >/dev/null 2>&1 || exit 97
#include top
shift
[ "$top" ] || set -- --no-ignore-parent "$@"
exec rg "$@"

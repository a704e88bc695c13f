# Written by hand, because `realpath -m` is not available everywhere. Sets `real`; missing parts are
# kept as they are.
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

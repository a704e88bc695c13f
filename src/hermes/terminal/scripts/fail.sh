fail() {
  printf '!%s' "$1" >&2
  exit 1
}

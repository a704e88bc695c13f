test "$(git rev-list --count origin/main..origin/fix/empty-input)" = 1
git show origin/fix/empty-input:parser.py | grep -q 'Words are separated'
test "$(git log -1 --format=%s rescued)" = "precious work"

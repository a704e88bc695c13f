git ls-remote --tags origin | grep -q 'refs/tags/v1.3.0$'
test "$(git log -1 --format=%s origin/main)" = "chore(release): 1.3.0"
grep -n '^## ' CHANGELOG.md | sed 's/ - .*//' | tr '\n' ' ' | grep -q '^3:## 1.3.0 .*:## 1.2.0 $'

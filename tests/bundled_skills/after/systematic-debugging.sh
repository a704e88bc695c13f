test "$(git branch --show-current)" = main
if ./repro.sh; then exit 1; fi
git bisect start HEAD v1.0
git bisect run ./repro.sh > ../bisect.txt
grep -q 'is the first bad commit' ../bisect.txt
test "$(git show -s --format=%s refs/bisect/bad)" = "simplify prices"

git diff origin/main...HEAD > ../change.diff
python3 "$HERMES_SKILL_DIR/scripts/diff_check.py" ../change.diff > ../found || test $? = 1
grep -q '^debug: shop.py:2: breakpoint()' ../found
git worktree remove ../review-copy

grep -q '^name: weekly-report$' drafts/weekly-report/SKILL.md
python3 "$HERMES_SKILL_DIR/scripts/check_skill.py" drafts --all > found || test $? = 1
grep -q 'scripts/count.py is not mentioned' found

printf 'region,amount\nnorth,10.5\nsouth,20\n' > first.csv
printf 'note\nhello\n' > second.csv
python3 "$HERMES_SKILL_DIR/scripts/csv_to_xlsx.py" Notes=second.csv Sales=first.csv --out book.xlsx

test "$(wc -l < sales_clean.csv)" -eq 4
grep -q '^1,north,10.50,2024-05-01' sales_clean.csv

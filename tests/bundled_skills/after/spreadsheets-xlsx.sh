cmp first.csv sales.csv

test "$(grep -c '<circle' sales.svg)" = 6
test "$(grep -c '<rect' regions.svg)" = 3
grep -q 'north &amp; co' regions.svg

test "$(cat titles.txt)" = "One
Two"
test "$(cat table.csv)" = 'Tea,Price
Green,"4,50"
Black,3'
grep -q "\"url\": \"$SITE/black\"" items.json

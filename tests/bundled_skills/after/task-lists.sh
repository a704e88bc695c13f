test "$(wc -l < todo.txt)" -eq 3
grep -q "^x " todo.txt

echo 'print(sum(n * n for n in range(200000)))' > old.py
echo 'n = 200000 - 1; print(n * (n + 1) * (2 * n + 1) // 6)' > new.py

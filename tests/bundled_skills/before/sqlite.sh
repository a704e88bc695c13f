# needs: sqlite3
python3 - <<'PY'
import sqlite3

with sqlite3.connect("app.db") as database:
    database.execute("CREATE TABLE sales(id INTEGER PRIMARY KEY, region TEXT, amount REAL, day TEXT)")
    rows = [(1, "nord", 10.5, "2024-05-01"), (2, "south", 20.25, "2024-05-02")]
    database.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)
PY

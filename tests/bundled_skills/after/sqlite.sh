test "$(sqlite3 app.db 'SELECT region, amount FROM sales WHERE id = 1')" = 'north|12.5'
test "$(sqlite3 app-backup.db 'SELECT region FROM sales WHERE id = 1')" = nord

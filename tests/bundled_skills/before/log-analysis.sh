cat > app.log <<'LOG'
2024-05-31 01:10:00,120 INFO started worker 1
2024-05-31 02:14:07,512 WARNING pool nearly full: 48 of 50
2024-05-31 02:14:09,001 ERROR req=7f3a cannot connect to 10.0.0.5:5432
2024-05-31 02:14:10,311 ERROR req=7f3b cannot connect to 10.0.0.5:5432
2024-05-31 03:20:00,000 INFO started worker 2
LOG
echo '2024-05-31 02:14:08,900 INFO req=7f3a taken' > worker.log
cat > access.log <<'LOG'
203.0.113.9 - - [31/May/2024:02:14:09 +0000] "GET /orders?id=7 HTTP/1.1" 502 157 "-" "curl/8"
203.0.113.9 - - [31/May/2024:02:14:10 +0000] "GET /orders?id=8 HTTP/1.1" 502 157 "-" "curl/8"
198.51.100.4 - - [31/May/2024:02:20:11 +0000] "GET / HTTP/1.1" 200 5120 "-" "Mozilla/5.0"
LOG

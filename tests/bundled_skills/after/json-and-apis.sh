test "$(wc -l < all.jsonl)" -eq 3
test "$(jq -r .name posted.json)" = 'Tea "green" & strong'

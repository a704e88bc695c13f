cmp data/config.yaml restored/config.yaml
test ! -e restored/cache
test "$(stat -c %a backups/app-*.tar.gz)" = 600

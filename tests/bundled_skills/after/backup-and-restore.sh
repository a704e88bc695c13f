cmp data/config.yaml tmp.*/config.yaml
test ! -e "$(echo tmp.*)/cache"
test "$(stat -c %a backups/app-*.tar.gz)" = 600

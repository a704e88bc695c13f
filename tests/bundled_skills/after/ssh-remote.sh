cmp site/index.html server/tmp.*/index.html
test "$(stat -c %a id_deploy)" = 600

test -z "$(docker ps -aq --filter name=hello)"
test "$(docker image inspect hello:dev --format '{{.Config.User}}')" = 10001

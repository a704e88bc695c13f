export TASKS="$PWD/todo.txt"

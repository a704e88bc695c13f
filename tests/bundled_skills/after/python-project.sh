test "$(echo 'a b' | PYTHONPATH=src python3 -m wordcount)" = 2
test -x .venv/bin/python
grep -q '^wordcount = "wordcount.__main__:main"' pyproject.toml

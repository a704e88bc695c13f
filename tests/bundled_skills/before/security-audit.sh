# needs: git
git init -q --initial-branch=main project
WORK=$PWD/project
(
    cd project
    # Written in two pieces: this file shall not look as if it held a key.
    printf 'key = "AKI%s"\n' AQ3EGTR4VBN7LMWX2 > old.py
    git add -A
    git commit -q -m one
    git rm -q old.py
    printf 'password = "changeme-please"\nurl = "postgres://app:%s@db/shop"\n' 'k9Zq7xPw' > app.py
    printf 'token = "gh%s"  # secret-scan: allow\n' p_0123456789abcdefghijklmnopqrstuvwxyzAB > tests.py
    git add -A
    git commit -q -m two
)

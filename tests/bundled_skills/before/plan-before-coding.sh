# needs: git
git init -q --initial-branch=main project
WORK=$PWD/project
(
    cd project
    mkdir -p app tests
    echo 'def export_json(rows): ...' > app/report.py
    echo '# App' > README.md
    git add -A
    git commit -q -m "start"
)

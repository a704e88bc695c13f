# needs: git
git init -q --bare --initial-branch=main origin.git
git clone -q origin.git project 2>/dev/null
WORK=$PWD/project
(
    cd project
    git switch -q -c main
    echo 'def parse(text): return text.split()' > parser.py
    git add parser.py
    git commit -q -m "feat: split a line into words"
    git push -q -u origin main
    git commit -q --allow-empty -m "precious work"
    git reset -q --hard HEAD~1
)

# needs: git
git init -q --bare --initial-branch=main "$PWD/origin.git"
git clone -q origin.git project 2>/dev/null
WORK=$PWD/project
(
    cd project
    git switch -q -c main
    git commit -q --allow-empty -m "start"
    git push -q -u origin main
    git remote set-head origin main
    git remote add upstream git@github.com:alice/parser.git
    git switch -q -c fix/empty-input
    echo 'words' > parser.txt
    git add parser.txt
    git commit -q -m "fix: return no words for empty input"
)

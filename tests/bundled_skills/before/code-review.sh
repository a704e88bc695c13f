# needs: git
git init -q --bare --initial-branch=main origin.git
git clone -q origin.git project 2>/dev/null
WORK=$PWD/project
(
    cd project
    git switch -q -c main
    echo 'def total(prices): return sum(prices)' > shop.py
    git add shop.py
    git commit -q -m "feat: add up prices"
    git push -q -u origin main
    git switch -q -c feature
    printf 'def total(prices):\n    breakpoint()\n    return sum(prices)\n' > shop.py
    git commit -q -am "fix: totals"
)

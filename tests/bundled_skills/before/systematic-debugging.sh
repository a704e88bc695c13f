# needs: git
git init -q --initial-branch=main project
WORK=$PWD/project
(
    cd project
    good='import sys; from decimal import Decimal; print(int(Decimal(sys.argv[1]) * 100))'
    echo "$good" > price.py
    git add price.py
    git commit -q -m "prices"
    git tag v1.0
    for n in 1 2 3; do git commit -q --allow-empty -m "other work $n"; done
    echo 'import sys; print(int(float(sys.argv[1]) * 100))' > price.py
    git commit -q -am "simplify prices"
    for n in 4 5; do git commit -q --allow-empty -m "other work $n"; done
)

# needs: git
git init -q --bare --initial-branch=main origin.git
git clone -q origin.git project 2>/dev/null
WORK=$PWD/project
(
    cd project
    git switch -q -c main
    printf '[project]\nversion = "1.2.0"\n' > pyproject.toml
    printf '# Changelog\n\n## 1.2.0 - 2024-01-02\n\n- first\n' > CHANGELOG.md
    git add -A
    git commit -q -m "chore(release): 1.2.0"
    git tag -a v1.2.0 -m v1.2.0
    git commit -q --allow-empty -m "feat(cli): count words of a folder"
    git commit -q --allow-empty -m "fix: keep blank lines"
    git push -q -u origin main --tags
)

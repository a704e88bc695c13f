test -z "$(git status --porcelain)"
grep -q 'p \* q' ../project-claude-*/cart.py
git branch --list 'agent/claude-*' | grep -q agent/

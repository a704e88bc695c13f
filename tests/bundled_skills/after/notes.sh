test -f "vault/Japanese tea ceremony.md"
grep -q '\[\[Japanese tea ceremony\]\]' vault/Journal/2024-05-01.md

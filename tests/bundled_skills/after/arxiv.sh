test "$(grep -c "^@misc" papers.bib)" -eq 2
grep -q "eprint = {hep-th/9901001}" papers.bib

printf '@article{a2020,\n title={One {T}ea, two},\n author={Ann and Bob},\n journal="Tea, J.",\n year=2020,\n}\n' > clean.bib
{ cat clean.bib; echo '@book{b, title={X}}'; } > refs.bib
echo 'Text \cite{a2020}.' > paper.tex

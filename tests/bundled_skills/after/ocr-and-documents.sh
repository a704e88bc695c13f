grep -q 'Invoice number 4711' letter.txt
cat scan/page*.txt | grep -q 'Invoice number 4711'

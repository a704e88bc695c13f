pdftotext stamped.pdf - | grep -q 'Ann Müller'
test "$(pdfinfo all.pdf | sed -n 's/^Pages: *//p')" = 3
ls parts | tr '\n' ' ' | grep -q '^all-1-2.pdf all-3.pdf $'

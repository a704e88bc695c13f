# needs: pdftotext pdfinfo pdftoppm tesseract
python3 - <<'PY'
words = b"BT /F1 24 Tf 72 700 Td (Invoice number 4711) Tj 0 -40 Td (Total 99 euros) Tj ET"
parts = [
    b"<< /Type /Catalog /Pages 2 0 R >>",
    b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    b"<< /Length %d >>\nstream\n%s\nendstream" % (len(words), words),
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
]
out, places = b"%PDF-1.4\n", []
for number, part in enumerate(parts, 1):
    places.append(len(out))
    out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
table = b"".join(b"%010d 00000 n \n" % place for place in places)
tail = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
open("letter.pdf", "wb").write(out + tail % (table, len(out)))
PY

# needs: skill-packages
python3 - <<'PY'
import docx

document = docx.Document()
paragraph = document.add_paragraph("Dear ")
paragraph.add_run("{{na").bold = True
paragraph.add_run("me}}, offer of {{date}}")
table = document.add_table(rows=2, cols=2)
for cell, text in zip(table.rows[0].cells, ("What", "Price")):
    cell.text = text
for cell, text in zip(table.rows[1].cells, ("{{items.what}}", "{{items.price}} EUR")):
    cell.text = text
document.save("offer.docx")
PY

python3 - <<'PY'
import docx

offer = docx.Document("offer-ann.docx")
assert offer.paragraphs[0].text == "Dear Ann B., offer of 3 May 2024"
assert [[cell.text for cell in row.cells] for row in offer.tables[0].rows] == [
    ["What", "Price"], ["Tea", "4.50 EUR"], ["Cup", "3.00 EUR"]
]
edited = docx.Document("edited.docx")
assert any("14 %" in paragraph.text for paragraph in edited.paragraphs)
assert [cell.text for cell in edited.tables[0].rows[-1].cells] == ["West", "400"]
assert edited.paragraphs[-2].style.name == "Heading 1"
PY

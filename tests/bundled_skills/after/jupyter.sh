python3 - <<'PY'
import nbformat

book = nbformat.read("fresh.ipynb", as_version=4)
nbformat.validate(book)
assert [cell.cell_type for cell in book.cells] == ["markdown", "code", "code", "code"]
assert book.cells[2].outputs[0].text == "{'north': 22, 'south': 16}\n"
assert book.cells[3].outputs[0].text == "north\n"
PY

# needs: skill-packages pdftotext
python3 - <<'PY'
from reportlab.pdfgen import canvas

page = canvas.Canvas("form.pdf")
form = page.acroForm
page.drawString(50, 755, "Name")
form.textfield(name="name", x=120, y=750, width=200, height=20, fieldFlags="required")
form.checkbox(name="news", x=120, y=690)
form.radio(name="pay", value="card", x=120, y=660)
form.radio(name="pay", value="cash", x=160, y=660)
form.choice(name="size", x=120, y=620, width=80, height=20, options=["S", "M", "L"], value="S")
page.showPage()
page.drawString(50, 700, "page two")
page.showPage()
page.save()
PY

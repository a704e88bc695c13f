python3 - <<'PY'
import pptx

deck = pptx.Presentation("company.pptx")
assert [slide.shapes.title.text for slide in deck.slides] == [
    "Backups that work", "Two of three backups cannot be restored",
    "Until Friday each team names one person", "Restores got faster",
]
assert deck.slides[3].shapes[-1].has_chart
PY

"""The scripts that write documents, slides, forms, diagrams and notebooks.

What they write is opened again by the libraries that other programs use, in an environment with
`skill_tools()`; the tests of the steps in `test_all.py` do the same with the examples of the pages.
"""

import json
import os
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.pages import page
from tests.installed import mermaid, skill_tools

pytestmark = pytest.mark.timeout(600)
"""The first test may have to install the libraries."""


def read_back(folder: Path, program: str) -> Any:
    """What a program prints as JSON, run with the libraries."""
    done = subprocess.run(
        [skill_tools() / "python", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


REPORT = r"""# Tea & cups

See **the *new* shop** at [the page](https://example.org/?a=1&b=2), `x < y`, snake_case_name.
A line with a break\
here.

1. one
   - inner
2. two

Text

1. again

| A | B |
|:-:|--:|
| 1 \| 2 | **3** |

> said

```python
if a < b:
    pass
```

![A chart](chart.png)
"""


def test_a_word_document_has_real_structure(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text(REPORT)
    (tmp_path / "chart.png").write_bytes(png(2000, 500))
    options = ("--title", "T & U", "--author", "Ann", "--toc", "--page-numbers", "--page", "letter")
    done = run("word-docx/docx_write.py", "r.md", "--out", "r.docx", *options)
    assert done.returncode == 0, done.stderr
    found = read_back(
        tmp_path,
        """
import docx, json
d = docx.Document("r.docx")
rows = [[p.style.name, p.text] for p in d.paragraphs]
items = [p._p.pPr.numPr for p in d.paragraphs if p.style.name == "List Paragraph"]
numbers, levels = [n.numId.val for n in items], [n.ilvl.val for n in items]
text = next(p for p in d.paragraphs if p.text.startswith("See"))
marks = [[r.text, bool(r.bold), bool(r.italic)] for r in text.runs]
links = [link.address for p in d.paragraphs for link in p.hyperlinks]
cells = [[[c.text, str(c.paragraphs[0].alignment)] for c in r.cells] for r in d.tables[0].rows]
shape, section = d.inline_shapes[0], d.sections[0]
inner = section.page_width - section.left_margin - section.right_margin
print(json.dumps([rows, numbers, levels, marks, links, cells, shape.width <= inner,
    round(shape.width / shape.height, 2), section.page_width.inches, d.core_properties.author,
    section.footer.paragraphs[0].text]))
""",
    )
    rows, numbers, levels, marks, links, cells, fits, ratio, wide, author, footer = found
    assert ["Title", "T & U"] in rows
    assert ["Heading 1", "Tea & cups"] in rows
    assert ["Quote", "said"] in rows
    assert ["Code Block", "if a < b:\n    pass"] in rows
    assert any("snake_case_name. A line with a break\nhere." in text for _, text in rows)
    assert marks[2:4] == [["new", True, True], [" shop", True, False]]
    assert links == ["https://example.org/?a=1&b=2"]
    assert levels == [0, 1, 0, 0]
    assert numbers[0] == numbers[2] != numbers[3], "the second list starts at 1 again"
    assert cells[1] == [["1 | 2", "CENTER (1)"], ["3", "RIGHT (2)"]]
    assert (fits, ratio, wide, author, footer) == (True, 4.0, 8.5, "Ann", "1 / 1")


def test_a_template_keeps_its_look_and_unknown_names_are_told(run: Run, tmp_path: Path) -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = (
        "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>{{a</w:t></w:r>"
        "<w:r><w:t>}} and {{b}}</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>{{c}}</w:t></w:r></w:p>"
    )
    part = (
        f'<w:document xmlns:w="{space}" xmlns:x="urn:unused"><w:body>{body}</w:body></w:document>'
    )
    with zipfile.ZipFile(tmp_path / "t.docx", "w") as package:
        package.writestr("word/document.xml", part)
        package.writestr("customXml/item1.xml", "<kept/>")
    fill = ("word-docx/docx_fill.py", "t.docx")
    assert run(*fill, "--list").stdout == "a\nb\nc\n"
    (tmp_path / "d.json").write_text(json.dumps({"a": "{{b}} & <x>", "b": 2, "z": "?"}))
    done = run(*fill, "--data", "d.json", "--out", "o.docx")
    assert done.returncode == 1
    assert done.stderr == "not filled: c\nnot in the template: z\n"
    with zipfile.ZipFile(tmp_path / "o.docx") as package:
        assert package.read("customXml/item1.xml") == b"<kept/>"
        text = package.read("word/document.xml").decode()
    assert 'xmlns:x="urn:unused"' in text, "Word refuses files whose declarations are lost"
    texts = ["".join(node.itertext()) for node in ET.fromstring(text).iter(f"{{{space}}}t")]
    assert texts == ["{{b}} & <x>", " and 2", "{{c}}"]
    again = run(*fill, "--set", "a=1", "--set", "b", "--out", "p.docx")
    assert "--set takes name=value" in again.stderr
    (tmp_path / "d.json").write_text(json.dumps({"a": [1]}))
    assert "a must be a list of objects" in run(*fill, "--data", "d.json", "--out", "p.docx").stderr
    assert not (tmp_path / "p.docx").exists()


def test_slides_have_notes_tables_and_pictures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(png(400, 300))
    (tmp_path / "t.md").write_text(
        "# Talk\nAnn\n\nNotes: Hello\nthere\n---\n## Table\n\n"
        "| a | n |\n|---|---|\n| x | 1,5 |\n---\n"
        "## Beside\n\n- one\n  - two **b**\n1. three\n\n![Sales](chart.png)\n---\n## Code\n\n"
        "```\n---\nx\n```\n---\n\nno headline " + "word " * 80
    )
    done = run("slides-pptx/pptx_write.py", "t.md", "--out", "t.pptx", "--accent", "2E7D32")
    assert done.returncode == 1
    assert "!! slide 5 is crowded" in done.stdout
    assert "!! slide 5 has no headline" in done.stdout
    found = read_back(
        tmp_path,
        """
import json, pptx
d = pptx.Presentation("t.pptx")
print(json.dumps([
    [s.slide_layout.name for s in d.slides],
    d.slides[0].notes_slide.notes_text_frame.text,
    [[c.text for c in r.cells] for r in d.slides[1].shapes[1].table.rows],
    [[p.level, p.text] for p in d.slides[2].placeholders[1].text_frame.paragraphs],
    [s._element.nvPicPr.cNvPr.get("descr") for s in d.slides[2].shapes if s.shape_type == 13],
    [s.text_frame.text for s in d.slides[3].shapes if s.name == "Code"],
    all(min(s.left, s.top, d.slide_width - s.left - s.width, d.slide_height - s.top - s.height) >= 0
        for slide in d.slides for s in slide.shapes),
]))
""",
    )
    layouts, notes, cells, lines, pictures, code, inside = found
    assert layouts == ["Title Slide"] + ["Title and Content"] * 4
    assert notes == "Hello\nthere"
    assert cells == [["a", "n"], ["x", "1,5"]]
    assert lines == [[0, "one"], [1, "two b"], [0, "three"]]
    assert pictures == ["Sales"]
    assert code == ["---\nx"]
    assert inside
    wrong = run("slides-pptx/pptx_write.py", "t.md", "--out", "u.pptx", "--accent", "green")
    assert (wrong.returncode, "six hexadecimal digits" in wrong.stderr) == (2, True)


FORM = """
from reportlab.pdfgen import canvas
page = canvas.Canvas("form.pdf")
form = page.acroForm
form.textfield(name="name", x=120, y=750, width=200, height=20, fieldFlags="required")
form.textfield(name="zip", x=120, y=720, width=80, height=20, maxlen=5)
form.checkbox(name="news", x=120, y=690)
form.radio(name="pay", value="card", x=120, y=660)
form.radio(name="pay", value="cash", x=160, y=660)
form.choice(name="size", x=120, y=620, width=80, height=20, options=["S", "M"], value="S")
page.showPage()
page.drawString(50, 700, "second")
page.showPage()
page.save()
print("{}")
"""


def test_forms_are_filled_and_wrong_values_refused(run: Run, tmp_path: Path) -> None:
    read_back(tmp_path, FORM)
    pdf = ("pdf-forms/pdf_tool.py",)
    fields = json.loads(run(*pdf, "fields", "form.pdf", "--json").stdout)
    assert {field["name"]: field["kind"] for field in fields} == {
        "name": "text", "zip": "text", "news": "checkbox", "pay": "radio", "size": "choice",
    }  # fmt: skip
    values = {
        "name": "Ann Müller",
        "zip": "123456",
        "news": True,
        "pay": "cash",
        "size": "XL",
        "x": 1,
    }
    (tmp_path / "v.json").write_text(json.dumps(values))
    done = run(*pdf, "fill", "form.pdf", "--data", "v.json", "--out", "f.pdf")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "not filled: zip: it takes 5 characters",
        "not filled: size: 'XL' is none of S, M",
        "not filled: x: there is no such field",
    ]
    kept = {
        each["name"]: each["value"]
        for each in json.loads(run(*pdf, "fields", "f.pdf", "--json").stdout)
    }
    assert kept == {"name": "Ann Müller", "zip": "", "news": "Yes", "pay": "cash", "size": "S"}
    (tmp_path / "v.json").write_text(json.dumps({"zip": "1"}))
    empty = run(*pdf, "fill", "form.pdf", "--data", "v.json", "--out", "g.pdf")
    assert "required and empty: name" in empty.stderr
    flat = run(*pdf, "fill", "f.pdf", "--data", "v.json", "--out", "flat.pdf", "--flatten")
    assert flat.returncode == 0, flat.stderr
    assert run(*pdf, "fields", "flat.pdf").returncode == 1
    found = read_back(
        tmp_path,
        "import json, pypdf\n"
        "print(json.dumps(pypdf.PdfReader('flat.pdf').pages[0].extract_text()))",
    )
    assert "Ann Müller" in found
    assert "no fields" in run(*pdf, "fill", "flat.pdf", "--data", "v.json", "--out", "h.pdf").stderr


def test_pages_are_merged_split_rotated_and_stamped(run: Run, tmp_path: Path) -> None:
    read_back(tmp_path, FORM)
    pdf = ("pdf-forms/pdf_tool.py",)
    run(*pdf, "merge", "form.pdf", "form.pdf:2,1", "--out", "m.pdf")
    run(*pdf, "rotate", "m.pdf", "--degrees", 90, "--pages", "2-3", "--out", "r.pdf")
    split = run(*pdf, "split", "r.pdf", "--pages", "1-3", "--pages", "4-", "--out", "parts")
    assert split.stdout == "parts/r-1-3.pdf\nparts/r-4.pdf\n"
    run(
        *pdf,
        "stamp",
        "r.pdf",
        "--text",
        "Größe (1)",
        "--at",
        "50,60",
        "--page",
        4,
        "--out",
        "s.pdf",
    )
    found = read_back(
        tmp_path,
        """
import json, pypdf
r = pypdf.PdfReader("s.pdf")
print(json.dumps([[p.rotation for p in r.pages], [o.title for o in r.outline],
    "second" in r.pages[2].extract_text(), "Größe (1)" in r.pages[3].extract_text()]))
""",
    )
    assert found == [[0, 90, 90, 0], ["form", "form"], True, True]
    for arguments, words in (
        (("merge", "form.pdf:3", "--out", "x.pdf"), "there are no pages 3: the file has 2"),
        (("stamp", "form.pdf", "--text", "茶", "--at", "1,1", "--out", "x.pdf"), "West European"),
        (("stamp", "form.pdf", "--text", "x", "--at", "1", "--out", "x.pdf"), "two numbers"),
        (("merge", "form.pdf", "--out", "s.pdf"), "--force"),
    ):
        refused = run(*pdf, *arguments)
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert not (tmp_path / "x.pdf").exists()


FLOW = """title Order "process" & more
direction right
user(Customer)
shop[Web shop]
paid{Paid?}
db[(Orders)]
end[The end]
user -> shop: order
shop -> paid
paid -> db: yes
paid --> user: no, "again"
shop <-> stock
db -- end
db -> db: daily
group Back end: db stock
"""


@pytest.mark.requires("dot")
def test_a_diagram_has_every_box_in_every_format(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text(FLOW)
    svg = ET.fromstring(run("diagrams/diagram.py", "f.txt").stdout)
    space = "{http://www.w3.org/2000/svg}"
    texts = ["".join(node.itertext()) for node in svg.iter(f"{space}text")]
    assert {"Customer", "Web shop", "Paid?", "Orders", "stock", 'no, "again"', "Back end"} <= set(
        texts
    )
    assert len([node for node in svg.iter(f"{space}path") if node.get("marker-end")]) == 6
    board = json.loads(run("diagrams/diagram.py", "f.txt", "--to", "excalidraw").stdout)
    elements = {each["id"]: each for each in board["elements"]}
    assert (board["type"], board["version"], len(elements)) == (
        "excalidraw",
        2,
        len(board["elements"]),
    )
    for each in elements.values():
        if each["type"] == "arrow":
            for end in ("startBinding", "endBinding"):
                holder = elements[each[end]["elementId"]]
                assert {"id": each["id"], "type": "arrow"} in holder["boundElements"]
    dot = run("diagrams/diagram.py", "f.txt", "--to", "dot").stdout
    drawn = subprocess.run(
        ["dot", "-Tplain"], input=dot, capture_output=True, text=True, check=True
    )
    assert drawn.stdout.count("\nnode ") == 6
    assert drawn.stdout.count("\nedge ") == 7


def test_arrows_go_around_boxes_and_bad_lines_are_named(run: Run) -> None:
    chain = "a -> b\nb -> c\nc -> a\n"
    for direction in ("down", "right"):
        text = run("diagrams/diagram.py", "-", stdin=f"direction {direction}\n{chain}").stdout
        corners = [
            node.get("d", "").count("L") for node in ET.fromstring(text).iter() if node.get("d")
        ]
        assert max(corners) == 3, "the arrow back is not drawn through the box between"
    for line, words in (("a b", "line 1: 'a b' is no box"), ("group X: a", "there is no box a")):
        done = run("diagrams/diagram.py", "-", stdin=line)
        assert (done.returncode, words in done.stderr) == (2, True)


@pytest.mark.requires("chromium")
def test_mermaid_itself_draws_the_diagram(run: Run, tmp_path: Path) -> None:
    made = run("diagrams/diagram.py", "-", "--to", "mermaid", stdin=FLOW).stdout
    (tmp_path / "page.html").write_text(
        f"<script src='{mermaid().as_uri()}'></script><div id='out'></div>", encoding="utf-8"
    )
    (tmp_path / "f.mmd").write_text(made)
    options = ["--no-sandbox"] * (os.geteuid() == 0)
    found = read_back(
        tmp_path,
        f"""
import json, pathlib
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    browser = p.chromium.launch(executable_path={shutil.which("chromium")!r}, args={options!r})
    page = browser.new_page()
    page.goto(pathlib.Path("page.html").resolve().as_uri())
    text = pathlib.Path("f.mmd").read_text()
    svg = page.evaluate("async t => (await mermaid.render('d', t)).svg", text)
    browser.close()
print(json.dumps(svg))
""",
    )
    for label in ("Customer", "Paid?", "Orders", "The end", "Back end", "again"):
        assert label in found


def test_notebooks_are_changed_cell_by_cell(run: Run, tmp_path: Path) -> None:
    notebook = ("jupyter/notebook.py",)
    (tmp_path / "a.py").write_text("import os\n# %% [markdown]\n# # Title\n# text\n# %%\nx = 1\n")
    assert run(*notebook, "new", "a.ipynb", "--from", "a.py").stdout == "a.ipynb: 3 cells\n"
    assert run(*notebook, "export", "a.ipynb").stdout == (
        "# %%\nimport os\n\n# %% [markdown]\n# # Title\n# text\n\n# %%\nx = 1\n\n"
    )
    run(*notebook, "set", "a.ipynb", 3, "--file", "-", stdin="x = 2")
    run(*notebook, "add", "a.ipynb", "--file", "-", "--after", 0, "--markdown", stdin="*first*")
    assert run(*notebook, "delete", "a.ipynb", 2).returncode == 0
    assert run(*notebook, "show", "a.ipynb").stdout == (
        "--- 1 markdown\n*first*\n--- 2 markdown\n# Title\ntext\n--- 3 code\nx = 2\n"
    )
    for arguments, words in ((("set", "a.ipynb", 9, "--file", "a.py"), "there is no cell 9"),
                             (("show", "a.ipynb", "--cells", "x"), "no range")):  # fmt: skip
        assert words in run(*notebook, *arguments).stderr
    book = json.loads((tmp_path / "a.ipynb").read_text())
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw=="}}
    book["cells"][2].update(outputs=[picture], execution_count=4)
    (tmp_path / "a.ipynb").write_text(json.dumps(book))
    shown = run(*notebook, "show", "a.ipynb", "--outputs", "--pictures", "shots").stdout
    assert shown.endswith("--- 3 code [4]\nx = 2\n>>> [a picture: shots/cell3-1.png]\n")
    assert (tmp_path / "shots" / "cell3-1.png").read_bytes() == b"\x89PNG"
    run(*notebook, "clear", "a.ipynb")
    assert "image/png" not in (tmp_path / "a.ipynb").read_text()


def test_a_failing_cell_is_named_and_results_until_then_are_kept(tmp_path: Path) -> None:
    script = page("jupyter").folder / "scripts" / "notebook.py"
    (tmp_path / "a.py").write_text("# %%\nprint('kept')\n# %%\n1 / 0\n# %%\nprint('never')\n")

    def notebook(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [skill_tools() / "python", script, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    notebook("new", "a.ipynb", "--from", "a.py")
    done = notebook("run", "a.ipynb")
    assert (done.returncode, "failed in cell 2" in done.stderr) == (1, True)
    assert "ZeroDivisionError" in done.stderr
    shown = notebook("show", "a.ipynb", "--outputs").stdout
    assert ">>> kept" in shown
    assert ">>> never" not in shown
    missing = notebook("run", "a.ipynb", "--kernel", "nowhere")
    assert (missing.returncode, "no kernel 'nowhere'" in missing.stderr) == (2, True)


def test_training_data_is_checked_and_the_template_snippet_runs(run: Run, tmp_path: Path) -> None:
    def row(*pairs: tuple[str, str]) -> str:
        return json.dumps({"messages": [{"role": r, "content": c} for r, c in pairs]})

    long = " ".join(f"word{n}" for n in range(20))
    good = row(("system", "Be short."), ("user", "Hi"), ("assistant", "Hello."))
    pair = {"prompt": "Hi", "chosen": "Hello.", "rejected": "Hello."}
    rows = [
        good,
        good,
        row(("user", "x")),
        row(("user", "y"), ("assistant", " ")),
        json.dumps(pair),
    ]
    rows += ["{", row(("user", long), ("assistant", "z")), row(("bot", "x"), ("assistant", "q"))]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    (tmp_path / "e.jsonl").write_text(row(("user", f"Please say {long} now"), ("assistant", "w")))
    done = run("fine-tuning-notes/check_chat_data.py", "t.jsonl", "--held-out", "e.jsonl")
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [
        "!! 1 x an empty answer: line 4",
        "!! 1 x chosen and rejected are equal: line 5",
        "!! 1 x does not end with an answer: line 3",
        "!! 1 x is no JSON object: line 6",
        "!! 1 x overlaps with the held-out file: line 7",
        "!! 1 x unknown role bot: line 8",
        "!! 1 x was there before: line 2",
        "8 examples, 7 with findings",
    ]
    (snippet,) = (b.text for b in page("fine-tuning-notes").blocks if b.language == "python")
    made = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = {"<s>": 0, "</s>": 1, "Hi": 2, "Hello.": 3, "?": 4}
raw = Tokenizer(models.WordLevel(words, unk_token="?"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
fast = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="</s>", unk_token="?")
fast.chat_template = "{% for m in messages %}{{ m.content }} </s> {% endfor %}"
fast.save_pretrained("model")
"""
    program = f"{made}\n{snippet.replace('MODEL', 'model')}"
    done = subprocess.run(
        [skill_tools() / "python", "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Hello. </s>" in done.stdout


def test_servers_are_started_awaited_and_ended(run: Run, tmp_path: Path) -> None:
    server = "python3 -c 'import sys; print(\"no config\"); sys.exit(3)'"
    done = run("web-app-testing/with_server.py", "--server", server, "--url", "http://127.0.0.1:9/",
               "--", "true")  # fmt: skip
    assert done.returncode == 3
    assert "ended with 3\nno config" in done.stderr
    slow = run("web-app-testing/with_server.py", "--server", "sleep 60", "--url",
               "http://127.0.0.1:9/", "--wait", "0.3", "--", "true")  # fmt: skip
    assert (slow.returncode, "no answer at http://127.0.0.1:9/" in slow.stderr) == (3, True)
    (tmp_path / "task.md").write_text("Do it")
    outside = run("coding-agents/delegate.py", "codex", "task.md")
    assert (outside.returncode, "codex is not installed: npm install" in outside.stderr) == (
        2,
        True,
    )

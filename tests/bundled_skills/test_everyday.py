"""The scripts of the skills for documents, notes, writing and media, with good and bad input."""

import base64
import json
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.cases import cases

CASES = cases(__file__)

# web-research


def report(folder: Path, text: str, **sources: str) -> None:
    (folder / "sources").mkdir()
    (folder / "report.md").write_text(text)
    for name, content in sources.items():
        (folder / "sources" / name.replace("_", ".").removeprefix("s")).write_text(content)


def test_quotations_that_stand_in_their_source_are_fine(run: Run, tmp_path: Path) -> None:
    text = (
        'It is “two of  three – failed” [1], "in May … nobody\nnoticed" [2].\n\n'
        "## Sources\n[1] One. https://a.example\n2. Two, doi:10.1/x\n"
    )
    page = "<p>In May it rained.</p><script>x</script> Nobody noticed."
    report(tmp_path, text, s1_txt="Alas, two of three - failed.", s2_html=page)
    done = run("web-research/check_quotes.py", "report.md", "sources")
    assert (done.returncode, done.stdout) == (0, "2 quotations, 2 sources, 0 findings\n")


def test_wrong_quotations_and_loose_sources_are_found(run: Run, tmp_path: Path) -> None:
    text = 'It is "three of three failed" [1], they say [4].\n\n# References\n[1] One.\n[2] b https://b\n'
    report(tmp_path, text, s1_txt="Two of three failed. Nothing else.", s2_txt="x")
    done = run("web-research/check_quotes.py", "report.md", "sources")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'line 1: not in source 1: "three of three failed"; the source says: "two of three failed."',
        "[4] is cited, but not in the list of sources",
        "source 2 is never cited",
        "source 1 has no address",
        "1 quotations, 2 sources, 4 findings",
    ]


def test_a_long_source_without_full_stops_is_checked_quickly(run: Run, tmp_path: Path) -> None:
    text = 'So "nobody has said this" [1].\n\n# Sources\n[1] One https://a.example\n'
    report(tmp_path, text, s1_txt="nobody " * 20_000)
    done = run("web-research/check_quotes.py", "report.md", "sources")
    assert done.stdout.startswith('line 1: not in source 1: "nobody has said this"\n')


def test_a_report_without_sources_cannot_be_checked(run: Run, tmp_path: Path) -> None:
    report(tmp_path, "just text")
    done = run("web-research/check_quotes.py", "report.md", "sources")
    assert done.returncode == 2
    assert "no heading `Sources`" in done.stderr


# ocr-and-documents


def zipped(file: Path, **parts: str) -> None:
    with zipfile.ZipFile(file, "w") as book:
        for name, content in parts.items():
            book.writestr(name.replace("__", "/").replace("_X", ".x"), content)


def test_word_documents_keep_headings_and_tables(run: Run, tmp_path: Path) -> None:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    body = (
        f"<w:document {space}><w:body>"
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Offer</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>Dear </w:t></w:r><w:r><w:t>Ann</w:t><w:br/><w:t>hello</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Tea</w:t></w:r></w:p></w:tc>"
        "<w:tc><w:p><w:r><w:t>4</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"
    )
    zipped(tmp_path / "a.bin", word__document_Xml=body)
    done = run("ocr-and-documents/doc_text.py", "a.bin")
    assert (done.returncode, done.stdout) == (0, "# Offer\nDear Ann\nhello\nTea | 4\n")


def test_slides_books_and_open_documents(run: Run, tmp_path: Path) -> None:
    drawing = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    slide = "<s {0}><a:p><a:r><a:t>{1}</a:t></a:r></a:p></s>"
    slides = {f"ppt__slides__slide{n}_Xml": slide.format(drawing, f"Slide {n}") for n in (1, 2, 10)}
    zipped(tmp_path / "a.pptx", ppt__presentation_Xml="<x/>", **slides)
    stats = run("ocr-and-documents/doc_text.py", "a.pptx", "--pages", "2-3")
    assert stats.stdout == "Slide 2\n\nSlide 10\n"

    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="c" href="my%20text.html"/>'
        '</manifest><spine><itemref idref="c"/></spine></package>'
    )
    with zipfile.ZipFile(tmp_path / "a.epub", "w") as book:
        book.writestr("META-INF/container.xml", '<rootfile full-path="in/book.opf"/>')
        book.writestr("in/book.opf", package)
        book.writestr("in/my text.html", "<h1>One</h1><p>Tea &amp; cake</p>")
    assert run("ocr-and-documents/doc_text.py", "a.epub").stdout == "One\nTea & cake\n"

    names = (
        'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
        'xmlns:b="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    )
    row = "<b:table-row><b:table-cell><t:p>Tea</t:p></b:table-cell><b:table-cell/></b:table-row>"
    content = f'<o {names}><t:h t:outline-level="2">Head</t:h>{row}<t:p>Tea</t:p></o>'
    zipped(tmp_path / "a.odt", content_Xml=content)
    assert run("ocr-and-documents/doc_text.py", "a.odt").stdout == "## Head\nTea\nTea\n"


def test_rtf_html_and_plain_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_bytes(
        rb"{\rtf1{\fonttbl{\f0 Arial;}}{\*\x y}Caf\'e9\par \u8364? 5\{\}}"
    )
    assert run("ocr-and-documents/doc_text.py", "a.rtf").stdout.splitlines()[0] == "Café"
    (tmp_path / "a.html").write_text(
        "<html><title>t</title><style>x</style><td>1</td><td>2</td></html>"
    )
    assert run("ocr-and-documents/doc_text.py", "a.html").stdout == "1 | 2\n"
    (tmp_path / "a.txt").write_bytes("Tür".encode("cp1252"))
    assert run("ocr-and-documents/doc_text.py", "a.txt", "--stats").stdout == "page 1: 1 words\n"


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (b"\x00\x01\x02", 2, "use OCR"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", 2, "old .doc"),
        (b"PK\x03\x04broken", 2, "damaged"),
        (b"%PDF-1.4 broken", 2, "pdf"),
        (b"   ", 3, "no text on page 1"),
    ],
)
def test_file_without_text_is_explained(run, tmp_path, content, code, text):
    (tmp_path / "a.x").write_bytes(content)
    done = run("ocr-and-documents/doc_text.py", "a.x")
    assert done.returncode == code
    assert text in done.stderr


# notes


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / ".obsidian" / "secret.md").write_text("tea")
    (folder / "Drinks").mkdir()
    (folder / "Drinks" / "Tea.md").write_text(
        "---\ntags:\n  - drinks/hot\n---\n# Tea\nLeaves. ![[a.png]]\n"
    )
    (folder / "a.png").write_bytes(b"")
    (folder / "Me.md").write_text(
        "I like [[tea#Kinds|that]], [milk](Milk.md), [t](Drinks/Tea.md) and `[[Code]]`. #Me\n"
    )
    return folder


def test_notes_are_found_by_words_and_tags(run: Run, vault: Path) -> None:
    found = run("notes/notes.py", "--vault", vault, "search", "TEA", "like")
    assert found.stdout.splitlines()[0] == "Me.md"
    assert (
        run("notes/notes.py", "--vault", vault, "search", "--tag", "drinks").stdout
        == "Drinks/Tea.md\n"
    )
    assert run("notes/notes.py", "--vault", vault, "search", "secret").returncode == 1


def test_broken_links_are_named_and_code_is_not_a_link(run: Run, vault: Path) -> None:
    done = run("notes/notes.py", "--vault", vault, "check")
    assert done.returncode == 1
    assert done.stdout == (
        "Me.md:1: no note 'Milk.md'\n1 broken links; 1 of 2 notes nobody links to\n"
    )
    assert "<- Me.md  line 1" in run("notes/notes.py", "--vault", vault, "links", "Tea").stdout


def test_a_new_note_never_overwrites_and_stays_in_the_vault(run: Run, vault: Path) -> None:
    again = run("notes/notes.py", "--vault", vault, "new", "tea")
    assert "is there already" in again.stderr
    outside = run("notes/notes.py", "--vault", vault, "new", "X", "--folder", "../..")
    assert (outside.returncode, "outside" in outside.stderr) == (2, True)
    assert "cannot be the name" in run("notes/notes.py", "--vault", vault, "new", "a/b").stderr
    run("notes/notes.py", "--vault", vault, "daily", "--day", "2024-05-01", "--text", "- one")
    run("notes/notes.py", "--vault", vault, "daily", "--day", "2024-05-01", "--text", "- two")
    assert (vault / "2024-05-01.md").read_text() == "# 2024-05-01\n\n- one\n- two\n"


@pytest.mark.parametrize("place", [("--day", "../../x"), ("--folder", "../..")])
def test_a_daily_note_stays_in_the_vault(run: Run, vault: Path, place: tuple[str, ...]) -> None:
    before = sorted(vault.parent.parent.iterdir())
    done = run("notes/notes.py", "--vault", vault, "daily", *place, "--text", "- x")
    assert done.returncode == 2
    assert sorted(vault.parent.parent.iterdir()) == before


def test_writing_changes_no_other_byte_of_a_note(run: Run, vault: Path) -> None:
    (vault / "Old.md").write_bytes(b"---\r\ntags: [x]\r\n---\r\nCaf\xe9 [[Tea]]\r\n")
    (vault / "2024-05-01.md").write_bytes(b"# Day\r\n\xe9\r\n")
    run("notes/notes.py", "--vault", vault, "rename", "Tea", "Green tea", "--write")
    expected = b"---\r\ntags: [x]\r\n---\r\nCaf\xe9 [[Green tea]]\r\n"
    assert (vault / "Old.md").read_bytes() == expected
    run("notes/notes.py", "--vault", vault, "daily", "--day", "2024-05-01", "--text", "- one")
    assert (vault / "2024-05-01.md").read_bytes() == b"# Day\r\n\xe9\r\n- one\r\n"
    assert "Old.md" in run("notes/notes.py", "--vault", vault, "search", "--tag", "x").stdout


def test_a_rename_takes_the_links_along(run: Run, vault: Path) -> None:
    shown = run("notes/notes.py", "--vault", vault, "rename", "Tea", "Green tea")
    assert "would rename Drinks/Tea.md to Drinks/Green tea.md" in shown.stdout
    assert "by hand: Me.md" in shown.stdout
    assert (vault / "Drinks" / "Tea.md").exists()
    run("notes/notes.py", "--vault", vault, "rename", "Tea", "Green tea", "--write")
    assert "[[Green tea#Kinds|that]]" in (vault / "Me.md").read_text()
    assert (vault / "Drinks" / "Green tea.md").exists()


# meeting-notes


def test_rolling_captions_are_joined_and_speakers_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(
        "1\r\n00:00:01,000 --> 00:00:02,000\r\nAnn: Good morning\r\n\r\n"
        "2\r\n00:00:02,000 --> 00:00:03,000\r\nGood morning\r\nto <i>all</i> &amp; you\r\n\r\n"
        "3\r\n00:01:00,000 --> 00:01:02,000\r\nBob Lee: Uh, hi\r\n"
    )
    done = run("meeting-notes/clean_transcript.py", "a.srt", "--times", "--tidy")
    assert done.stdout == "[00:00:01] Ann: Good morning to all & you\n[00:01:00] Bob Lee: hi\n"
    stats = run("meeting-notes/clean_transcript.py", "a.srt", "--stats").stdout
    assert stats.splitlines() == [
        "length 00:01:02",
        "Ann: 6 words (75 %), 1 turns",
        "Bob Lee: 2 words (25 %), 1 turns",
    ]


def test_plain_transcripts_and_parts(run: Run) -> None:
    text = "[00:01:02] Ann: one two\n00:02:00 Bob: three\nfour\n"
    shown = run("meeting-notes/clean_transcript.py", "-", "--times", stdin=text).stdout
    assert shown == "[00:01:02] Ann: one two\n[00:02:00] Bob: three four\n"
    parts = run("meeting-notes/clean_transcript.py", "-", "--parts", 10, stdin=text).stdout
    assert parts.count("part-") == 2


def test_recordings_and_empty_files_are_refused_as_transcripts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.mp3").write_bytes(b"ID3\x00\x00")
    assert "must be transcribed" in run("meeting-notes/clean_transcript.py", "a.mp3").stderr
    assert run("meeting-notes/clean_transcript.py", "-", stdin="WEBVTT\n").returncode == 1
    assert run("meeting-notes/clean_transcript.py", "-", stdin="\n").returncode == 1


# task-lists


def todo(run: Run, *arguments: object) -> str:
    done = run("task-lists/todo.py", "todo.txt", "--today", "2024-01-31", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_task_that_repeats_comes_again(run: Run, tmp_path: Path) -> None:
    todo(run, "add", "(B) Pay rent +house due:2024-01-31 t:2024-01-30 rec:+1m")
    todo(run, "done", 1)
    assert (tmp_path / "todo.txt").read_text().splitlines() == [
        "x 2024-01-31 2024-01-31 Pay rent +house due:2024-01-31 t:2024-01-30 rec:+1m pri:B",
        "(B) 2024-01-31 Pay rent +house t:2024-02-28 rec:+1m due:2024-02-29",
    ]
    assert run("task-lists/todo.py", "todo.txt", "--today", "2024-01-31", "list").returncode == 1


def test_the_agenda_sorts_by_urgency(run: Run) -> None:
    for text in (
        "Late due:2024-01-29",
        "(A) Big thing",
        "Soon due:2024-02-03",
        "Now due:2024-01-31",
    ):
        todo(run, "add", text)
    assert todo(run, "agenda").splitlines() == [
        "late:",
        "  1 2024-01-31 Late due:2024-01-29  [2 days late]",
        "today:",
        "  4 2024-01-31 Now due:2024-01-31  [today]",
        "until 2024-02-07:",
        "  3 2024-01-31 Soon due:2024-02-03",
        "important, without a day:",
        "  2 (A) 2024-01-31 Big thing",
    ]
    assert todo(run, "set", 3, "due:2024-03-01", "(C)", "@desk") == (
        "  3 (C) 2024-01-31 Soon due:2024-03-01 @desk\n"
    )
    assert todo(run, "set", 3, "due:", "()") == "  3 2024-01-31 Soon @desk\n"


@pytest.mark.parametrize(("arguments", "text"), CASES["wrong tasks change nothing"])
def test_wrong_tasks_change_nothing(run, tmp_path, arguments, text):
    done = run("task-lists/todo.py", "todo.txt", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "todo.txt").exists()


# writing

LONG = " ".join(f"word{number}" for number in range(31))


def test_the_text_check_finds_what_is_hard_to_read(run: Run) -> None:
    text = (
        "---\nkey: the the\n---\n# Very short\n\nThis is is really it , e.g. `very`.\n\n"
        f"{LONG}.\n\nIt was written. It rains. It ends. TODO\n\n```\nvery very\n```\n"
    )
    out = run("writing-and-editing/text_check.py", "-", stdin=text).stdout.splitlines()
    assert out[:-1] == [
        "line 4: filler: Very",
        "line 6: blank before a mark: t ,",
        "line 6: doubled word: is is",
        "line 6: filler: really",
        f"line 8: 31 words in a sentence: {LONG[:89]}…",
        "line 10: left open: TODO",
        "line 10: passive: was written",
        "line 10: three sentences start alike: It",
    ]
    assert "8 findings" in out[-1]


def test_clear_text_has_no_findings_and_bytes_are_refused(run: Run, tmp_path: Path) -> None:
    done = run("writing-and-editing/text_check.py", "-", stdin="We met. Ann wrote it down.\n")
    assert (done.returncode, done.stdout) == (
        0,
        "6 words, 2 sentences, 3.0 words each, 1 min to read; 0 findings\n",
    )
    (tmp_path / "a").write_bytes(b"\xff\xff")
    assert run("writing-and-editing/text_check.py", "a").returncode == 2


def test_broken_documentation_is_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# B\n\n## The `x` option\n\n## The x option\n")
    (tmp_path / "README.md").write_text(
        "# A\n\n### Deep\n[ok](docs/b.md#the-x-option-1) [no](docs/b.md#nix) [gone](c.md)\n"
        "![](p.png) [web](https://example.org) `[code](x.md)` [r][s]\n\n```\n[in](code.md)\n```\n"
        "# Second\n~~~bash\nnever closed TODO\n"
    )
    done = run("technical-documentation/check_docs.py", "README.md", "docs")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "README.md:3: a heading of level 3 follows one of level 1",
        "README.md:4: no file c.md",
        "README.md:4: no heading #nix in b.md",
        "README.md:5: no file p.png",
        "README.md:5: no reference [s] is defined",
        "README.md:5: the picture p.png has no description",
        "README.md:7: the code block names no language",
        "README.md:10: a second heading of the first level",
        "README.md:11: the code block is never closed",
        "2 files, 9 findings",
    ]
    urls = run("technical-documentation/check_docs.py", "README.md", "--urls").stdout
    assert urls == "https://example.org\n"
    assert run("technical-documentation/check_docs.py", "none.md").returncode == 2


def test_slides_hold_pictures_notes_and_escaped_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"png")
    (tmp_path / "talk.md").write_text(
        "# Title\n---\n## <b> & `a<b`\n- one\n  - **two**\n1. three\n\n![p](p.png)\n"
        "Notes: say\nthis\n"
        "---\n```\n---\n```\n"
    )
    done = run("presentation-outline/slides.py", "talk.md")
    assert done.stdout == "slide 3: no heading\n3 slides\ntalk.html\n"
    page = (tmp_path / "talk.html").read_text()
    assert "<h2>&lt;b&gt; &amp; <code>a&lt;b</code></h2>" in page
    assert "<ul><li>one</li><ul><li><strong>two</strong></li></ul>" in page
    assert f"data:image/png;base64,{base64.b64encode(b'png').decode()}" in page
    assert "<aside>say this</aside>" in page
    assert "<pre><code>---</code></pre>" in page


def test_crowded_slides_and_missing_pictures_are_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("## A\n" + "- point\n" * 7 + "## A\n" + "word " * 70)
    done = run("presentation-outline/slides.py", "a.md", "--check", "--headings")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "slide 1: 7 points",
        "slide 2: 72 words",
        "slide 2: the same heading as before",
        "2 slides",
    ]
    (tmp_path / "a.md").write_text("# A\n![x](none.png)\n")
    assert "none.png is not there" in run("presentation-outline/slides.py", "a.md").stderr


# image-work


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def exif(orientation: int) -> bytes:
    tags = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0) + struct.pack(
        "<HHII", 0x8825, 4, 1, 99
    )
    return b"II*\0" + struct.pack("<IH", 8, 2) + tags


PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30, 20, 8, 6, 0, 0, 0))
PICTURES = {
    "a.png": (PNG, f"png 30x20, {len(PNG)} bytes, rgb with alpha 8 bit"),
    "a.jpg": (
        b"\xff\xd8\xff\xe1" + struct.pack(">H", 8 + len(exif(6))) + b"Exif\0\0" + exif(6)
        + b"\xff\xc2\x00\x11\x08" + struct.pack(">HHB", 600, 800, 3) + bytes(9),
        "jpeg 800x600, 65 bytes, colour, turned right, tells the place (GPS)",
    ),
    "a.gif": (b"GIF89a" + struct.pack("<HH", 7, 5) + bytes(3), "gif 7x5, 13 bytes"),
    "a.bmp": (b"BM" + bytes(16) + struct.pack("<ii", 4, -3), "bmp 4x3, 26 bytes"),
    "l.webp": (
        b"RIFF0000WEBPVP8L" + bytes(5) + struct.pack("<I", 9 | 4 << 14),
        "webp 10x5, 25 bytes",
    ),
    "x.webp": (b"RIFF0000WEBPVP8X" + bytes(8) + b"\x63\0\0\x31\0\0", "webp 100x50, 30 bytes"),
    "a.svg": (b'<?xml version="1.0"?><svg viewBox="0 0 20.5 10">', "svg 20.5x10, 48 bytes"),
    "a.avif": (
        b"\0\0\0\x1cftypavif" + b"\0\0\0\x14ispe" + struct.pack(">III", 0, 64, 32),
        "avif 64x32, 32 bytes",
    ),
    "photo": (
        PNG,
        f"png 30x20, {len(PNG)} bytes, rgb with alpha 8 bit, named without suffix, but it is png",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_known_by_their_content(run: Run, tmp_path: Path, name: str) -> None:
    data, expected = PICTURES[name]
    (tmp_path / name).write_bytes(data)
    done = run("image-work/image_info.py", name)
    assert (done.returncode, done.stdout) == (0, f"{name}: {expected}\n")


def test_other_files_and_damaged_pictures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG[:18])
    (tmp_path / "b.jpg").write_bytes(b"")
    (tmp_path / "c.png").write_bytes(PNG)
    done = run("image-work/image_info.py", tmp_path, "--json")
    assert done.returncode == 1
    assert "a damaged png file" in done.stderr
    assert "the file is empty" in done.stderr
    assert json.loads(done.stdout)["width"] == 30
    assert run("image-work/image_info.py", "none.png").returncode == 2

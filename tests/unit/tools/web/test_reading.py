"""What the model gets to read of a page."""

import io
import sys
from threading import Event

import pypdf
import pytest

from hermes.core.errors import ToolError
from hermes.tools.web_pages import (
    MAX_PDF_PAGES,
    MAX_TRAFILATURA_CHARS,
    ContentKind,
    FetchedPage,
    PageText,
    decode_text,
    html_text,
    pdf_text,
    plain_text,
    read_page,
)
from tests.unit.tools.web.conftest import pdf

ARTICLE = """<!doctype html><html><head><title> A  &amp; B </title><style>p { x }</style></head>
<body><nav><a href="/home">Home</a> <a href="/about">About us</a></nav>
<article><h1>Salt</h1>
<p>Salt is a mineral made of <b>sodium chloride</b>; see <a href="https://e.example/x">more</a>.
It has been used for thousands of years, and whole towns were named after the trade in it.</p>
<ul><li>sea salt</li><li>rock salt</li></ul>
<table><tr><th>kind</th><th>grams</th></tr><tr><td>sea</td><td>12</td></tr></table>
<pre><code>grind(salt)</code></pre>
</article><script>alert("hidden")</script><footer>Imprint and cookies</footer></body></html>"""


async def reading(data: bytes | str, kind: ContentKind = "html", charset: str = "") -> PageText:
    raw = data.encode() if isinstance(data, str) else data
    return await read_page(FetchedPage("https://site.example/a", kind, charset, raw))


async def test_the_main_part_of_a_page_as_markdown() -> None:
    page = await reading(ARTICLE)
    assert page.title == "A & B"
    assert page.text.startswith("# Salt")
    for piece in ("**sodium chloride**", "[more](https://e.example/x)", "- sea salt", "| sea | 12"):
        assert piece in page.text
    assert "hidden" not in page.text
    assert "Imprint" not in page.text


def test_a_page_without_a_main_part_is_read_plainly() -> None:
    page = html_text("<title>T</title><p>hi", "")
    assert (page.title, page.text) == ("T", "hi")
    deep = "<div>" * 20_000 + "word " * 500
    assert html_text(deep, "").text.count("word") == 500


async def test_without_the_libraries_html_is_read_plainly_and_a_pdf_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    page = await reading(ARTICLE)
    assert "# Salt" in page.text
    assert "Imprint" in page.text
    with pytest.raises(ToolError, match="pypdf is not installed") as missing:
        await reading(pdf("x"), "pdf")
    assert "hermes[web]" in missing.value.hint


def test_a_huge_page_is_read_plainly_and_whole() -> None:
    page = html_text("<p>word</p>" * (MAX_TRAFILATURA_CHARS // 10), "")
    assert page.text.count("word") == MAX_TRAFILATURA_CHARS // 10


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<head><title>x</head><body>seen", ""),
        ("<head><meta x><body>seen", "seen"),
        ("<p>one<p>two</b></i></p></div>", "one\ntwo"),
        ("<svg><text>no</text></svg>yes<style>a{}</style>", "yes"),
        ("a<script>if (a<b) '</p>'</script>b<template>t</template>", "ab"),
        ("<h2>Head</h2><ul><li>one<li>two</ul>", "## Head\n\n- one\n- two"),
        ("<a href='https://e.org'>a</a> <a href='javascript:x'>b</a>", "a (https://e.org) b"),
        ("<![CDATA[x]]><!-- note --><?php no ?>text", "text"),
        ("&#x110000; &bogus; &amp;", "� &bogus; &"),
        ("<" * 500, "<" * 500),
        ("<div>" * 5_000 + "deep", "deep"),
        ("", ""),
    ],
)  # fmt: skip
def test_broken_html_is_read_as_far_as_it_goes(html: str, text: str) -> None:
    assert plain_text(html).text == text
    html_text(html, "")


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("grüß".encode(), "utf-8", "grüß"),
        ("grüß".encode(), "", "grüß"),
        ("grüß".encode("cp1252"), "", "grüß"),
        ("“grüß”".encode("cp1252"), "iso-8859-1", "“grüß”"),
        ("привет".encode("cp1251"), "windows-1251", "привет"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("日本語".encode("shift_jis"), "Shift_JIS", "日本語"),
        ("日本語".encode("euc-jp"), "euc-jp", "日本語"),
        ("中文".encode("gb18030"), "gb2312", "中文"),
        ("한글".encode("cp949"), "euc-kr", "한글"),
        ("\ufeffgrüß".encode("utf-16-le"), "utf-8", "grüß"),
        ("\ufeffgrüß".encode(), "iso-8859-1", "grüß"),
        (b"<meta charset='windows-1251'>" + "привет".encode("cp1251"), "", "привет"),
        (b"<META content='text/html; charset=koi8-r'>" + "да".encode("koi8-r"), "", "да"),
        ("grüß".encode(), "unicode_escape", "grüß"),
        ("grüß".encode(), "zip", "grüß"),
        ("grüß".encode(), "no-such-thing", "grüß"),
        ("grüß".encode()[:-1], "", "grü�"),
    ],
)  # fmt: skip
def test_text_in_any_encoding_of_the_web(data: bytes, charset: str, text: str) -> None:
    assert decode_text(data, charset, "html").rpartition(">")[2] == text


async def test_text_and_json_stay_as_they_are() -> None:
    assert (await reading('{"a": [1, 2]}\n', "text")).text == '{"a": [1, 2]}'
    assert (await reading("# Title\n\n<b>x</b>\0", "text")).text == "# Title\n\n<b>x</b>"


async def test_a_cut_page_says_so() -> None:
    page = await read_page(FetchedPage("https://site.example/", "text", "", b"start", cut=True))
    assert page.notes == ("only the beginning was fetched: the page is very large",)


async def test_a_pdf_is_read_page_by_page() -> None:
    page = await reading(pdf("First page", "Second page", title="Report"), "pdf")
    assert page.title == "Report"
    assert page.text == "First page\n\nSecond page"
    assert page.notes == ()


async def test_a_long_pdf_is_read_in_part() -> None:
    page = await reading(pdf(*(f"page {n}" for n in range(MAX_PDF_PAGES + 20))), "pdf")
    assert page.text.endswith(f"page {MAX_PDF_PAGES - 1}")
    assert page.notes == (f"the first {MAX_PDF_PAGES} of {MAX_PDF_PAGES + 20} pages",)


def encrypted(password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("inside")))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_that_only_forbids_printing_is_read() -> None:
    assert (await reading(encrypted(""), "pdf")).text == "inside"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encrypted("secret"), "needs a password"),
        (b"%PDF-1.4\nnonsense", "damaged"),
        (pdf("x")[:300], "damaged"),
        (pdf(""), "no text in it"),
    ],
)
async def test_a_pdf_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        await reading(data, "pdf")


def test_reading_a_pdf_stops_when_nobody_waits() -> None:
    stop = Event()
    stop.set()
    with pytest.raises(ToolError):
        pdf_text(pdf("one", "two"), stop)

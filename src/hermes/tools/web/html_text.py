"""An HTML page as Markdown: its main part by trafilatura, or all of it by a plain reader."""

import re
from html.parser import HTMLParser
from importlib import import_module

import msgspec

from hermes.tools.web.tame_html import tamed

LARGEST = 500_000
"""Characters trafilatura gets; its time grows with the square of them."""
MAIN_PART = 250
"""Characters below which a main part that was found may be a mistake."""
TIMES_LONGER = 4
"""So much more text on the page says that it is one."""

_SKIPPED = {"script", "style", "noscript", "template", "svg", "iframe", "object", "select", "head"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "p",
    "pre", "section", "summary", "table", "tr", "ul",
}  # fmt: skip
_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_CELLS = {"td", "th"}
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_GAPS = re.compile(r"\n{3,}")


class HtmlText(msgspec.Struct, frozen=True):
    title: str
    text: str


def html_text(html: str, url: str) -> HtmlText:
    """Title and text. Slow for large pages: run it in a thread."""
    plain = plain_text(html)
    main = _main_part(html, url) if len(html) <= LARGEST else ""
    mistaken = len(main) < MAIN_PART and len(plain.text) > TIMES_LONGER * max(len(main), 1)
    return HtmlText(plain.title, plain.text if mistaken else main or plain.text)


def _main_part(html: str, url: str) -> str:
    """What trafilatura finds; empty when it is not installed, finds nothing or fails."""
    try:
        trafilatura = import_module("trafilatura")
    except ImportError:
        return ""
    try:
        found = trafilatura.extract(
            html, url=url, output_format="markdown", include_links=True, include_comments=False
        )
    except Exception:  # noqa: BLE001 - a parser over hostile input; the plain reader takes over
        return ""
    return str(found or "").strip()


class _Reader(HTMLParser):
    """Text with line breaks, headings, list items and links; what is not text is left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.title: list[str] = []
        self._skipping: list[str] = []
        self._in_title = False
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = not self.title
        elif tag in _SKIPPED:
            self._skipping.append(tag)
        elif tag == "body":
            self._skipping.clear()  # A head that nobody closed.
        elif tag in _HEADINGS:
            self.pieces.append(f"\n\n{_HEADINGS[tag]}")
        elif tag == "li":
            self.pieces.append("\n- ")
        elif tag in _CELLS:
            self.pieces.append(" | ")
        elif tag in _BLOCKS:
            self.pieces.append("\n")
        elif tag == "a":
            address = dict(attrs).get("href") or ""
            self._links.append(address if address.startswith(("http://", "https://")) else "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._skipping:
            del self._skipping[self._skipping.index(tag) :]
        elif tag in _HEADINGS or tag == "p":
            self.pieces.append("\n\n")
        elif tag in _BLOCKS:
            self.pieces.append("\n")
        elif tag == "a" and self._links and (address := self._links.pop()):
            self.pieces.append(f" ({address})" if not self._skipping else "")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipping:
            self.pieces.append(data.replace("\n", " "))


def plain_text(html: str) -> HtmlText:
    """Everything on a page that is text, in order."""
    reader = _Reader()
    reader.feed(tamed(html))
    reader.close()
    lines = (_SPACES.sub(" ", line).strip() for line in "".join(reader.pieces).split("\n"))
    title = " ".join("".join(reader.title).split())
    return HtmlText(title[:300], _GAPS.sub("\n\n", "\n".join(lines)).strip())

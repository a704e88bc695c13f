"""Mail in HTML as text: what a reader sees, and what is quoted."""

import re
from html.parser import HTMLParser

from hermes.tools.web_pages import plain_text, sanitize_html

_HIDING = re.compile(
    r"display:none|visibility:hidden|mso-hide:all"
    r"|(?:font-size|opacity):0*\.?0+(?:px|pt|em|rem|%)?(?:!important)?(?:;|$)"
)
_QUOTES = frozenset(
    {"gmail_quote", "gmail_attr", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote"}
)
_OUTLOOK = frozenset({"appendonsend", "divrplyfwdmsg", "mail-editor-reference-message-container"})
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
LARGEST = 1_000_000


class _Sorter(HTMLParser):
    """Sorts what is shown into new and quoted; what is hidden is neither."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.new: list[str] = []
        self.quoted: list[str] = []
        self._into: list[str] | None = self.new
        self._tag, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._tag:
            self._depth += tag == self._tag
        elif tag not in _VOID:
            said = {name: (value or "").lower() for name, value in attrs}
            style = "".join(said.get("style", "").split())
            if "hidden" in said or _HIDING.search(style):
                self._turn(tag, None)
            elif tag == "blockquote" or _QUOTES & set(said.get("class", "").split()):
                self._turn(tag, self.quoted)
            elif said.get("id", "") in _OUTLOOK:
                self._turn("html", self.quoted)  # all the rest
        self._put(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        self._put(f"</{tag}>")
        if tag == self._tag:
            self._depth -= 1
            if not self._depth:
                self._tag, self._into = "", self.new

    def handle_data(self, data: str) -> None:
        self._put(data)

    def handle_entityref(self, name: str) -> None:
        self._put(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._put(f"&#{name};")

    def _turn(self, tag: str, into: list[str] | None) -> None:
        self._tag, self._depth, self._into = tag, 1, into

    def _put(self, text: str) -> None:
        if self._into is not None:
            self._into.append(text)


def split_html(html: str) -> tuple[str, str]:
    """What is new and what is quoted, as text."""
    sorter = _Sorter()
    sorter.feed(sanitize_html(html[:LARGEST]))
    sorter.close()
    return plain_text("".join(sorter.new)).text, plain_text("".join(sorter.quoted)).text

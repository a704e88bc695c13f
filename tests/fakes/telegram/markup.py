"""Telegram's HTML: which tags it takes, and the text that people see."""

from html.parser import HTMLParser

from tests.fakes.telegram.world import bad

TAGS = frozenset(
    ("b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "code")
) | {"pre", "blockquote", "tg-emoji"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            raise bad(f'can\'t parse entities: Unsupported start tag "{tag}" at byte offset 0')
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            raise bad(f'can\'t parse entities: Unexpected end tag "{tag}" at byte offset 0')
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def readable(text: str, parse_mode: str | None) -> str:
    """What people see. Raises `Refused` for what Telegram does not take."""
    if not parse_mode:
        return text.strip()
    if parse_mode != "HTML":
        raise bad("unsupported parse_mode")
    reader = _Reader()
    reader.feed(text)
    reader.close()
    if reader.open:
        raise bad(
            f"can't parse entities: Can't find end tag corresponding to \"{reader.open[-1]}\""
        )
    return "".join(reader.text).strip()

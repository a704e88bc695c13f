"""What Markdown is made of."""

from typing import Literal

import msgspec

Style = Literal["bold", "italic", "strike"]


class Text(msgspec.Struct, frozen=True):
    value: str


class Code(msgspec.Struct, frozen=True):
    value: str


class Url(msgspec.Struct, frozen=True):
    """An address that stands in the text as it is."""

    value: str


class Styled(msgspec.Struct, frozen=True):
    style: Style
    children: "tuple[Inline, ...]"


class Link(msgspec.Struct, frozen=True):
    url: str
    children: "tuple[Inline, ...]"


Inline = Text | Code | Url | Styled | Link


class Heading(msgspec.Struct, frozen=True):
    level: int
    content: tuple[Inline, ...]


class Paragraph(msgspec.Struct, frozen=True):
    content: tuple[Inline, ...]


class Fence(msgspec.Struct, frozen=True):
    language: str
    code: str


class Quote(msgspec.Struct, frozen=True):
    blocks: "tuple[Block, ...]"


class Listing(msgspec.Struct, frozen=True):
    items: "tuple[tuple[Block, ...], ...]"
    start: int | None = None
    """The first number; None for points."""


class Table(msgspec.Struct, frozen=True):
    header: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


class Rule(msgspec.Struct, frozen=True):
    pass


Block = Heading | Paragraph | Fence | Quote | Listing | Table | Rule


def bare(content: tuple[Inline, ...]) -> str:
    """The words without formatting."""
    return "".join(
        part.value if isinstance(part, Text | Code | Url) else bare(part.children)
        for part in content
    )

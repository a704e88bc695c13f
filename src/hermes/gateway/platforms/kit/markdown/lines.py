"""Markdown written as lines of text, for every dialect that has no lists and tables of its own."""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import msgspec

from hermes.gateway.platforms.kit.markdown.nodes import (
    Block,
    Code,
    Fence,
    Heading,
    Inline,
    Link,
    Listing,
    Paragraph,
    Quote,
    Rule,
    Styled,
    Table,
    Text,
    Url,
    bare,
)
from hermes.gateway.platforms.kit.markdown.table import aligned

LINKED = ("http://", "https://", "mailto:", "tel:", "tg://", "matrix:")
"""What a link may begin with; other addresses are shown as text."""


def _same(text: str) -> str:
    return text


class Style(msgspec.Struct, frozen=True):
    """How a dialect writes what Markdown has."""

    text: Callable[[str], str]
    marks: Mapping[str, tuple[str, str]]
    """Before and after what is bold, italic or struck."""
    code: Callable[[str], str]
    link: Callable[[str, str], str]
    """Of the written label and the address."""
    fence: Callable[[str, str], str]
    """Of the language and the code."""
    heading: Callable[[int, str], str]
    quote: Callable[[str], str]
    url: Callable[[str], str] = _same
    paragraph: Callable[[str], str] = _same
    """Escapes what only counts at the beginning of a line."""
    point: str = "• "
    rule: str = "──────────"
    quotes_nest: bool = True


def render(blocks: Sequence[Block], style: Style) -> str:
    return _blocks(blocks, style, "\n\n", quoted=False).strip("\n")


def _blocks(blocks: Sequence[Block], style: Style, between: str, *, quoted: bool) -> str:
    written = (_block(block, style, quoted=quoted) for block in blocks)
    return between.join(part for part in written if part.strip())


def _block(block: Block, style: Style, *, quoted: bool) -> str:
    match block:
        case Heading(level=level, content=content):
            return style.heading(level, _inline(content, style))
        case Paragraph(content=content):
            return style.paragraph(_inline(content, style))
        case Fence(language=language, code=code):
            return style.fence(language, code) if code.strip() else ""
        case Quote(blocks=inner):
            text = _blocks(inner, style, "\n", quoted=True)
            return text if quoted and not style.quotes_nest else style.quote(text)
        case Listing():
            return _list(block, style, quoted=quoted)
        case Table():
            return style.fence("", aligned(block))
        case Rule():
            return style.rule
        case _:
            assert_never(block)


def _list(block: Listing, style: Style, *, quoted: bool) -> str:
    lines = []
    for number, item in enumerate(block.items, block.start or 0):
        mark = style.point if block.start is None else f"{number}. "
        parts = [(part, _block(part, style, quoted=quoted)) for part in item]
        indented = [
            text if isinstance(part, Fence | Table) else text.replace("\n", "\n" + " " * len(mark))
            for part, text in parts
        ]
        lines.append(mark + ("\n" + " " * len(mark)).join(indented))
    return "\n".join(lines)


def _inline(content: Sequence[Inline], style: Style) -> str:
    return "".join(_part(part, style) for part in content)


def _part(part: Inline, style: Style) -> str:
    match part:
        case Text(value=value):
            return style.text(value)
        case Code(value=value):
            return style.code(value)
        case Url(value=value):
            return style.url(value)
        case Styled(style=name, children=children):
            before, after = style.marks[name]
            inner = _inline(children, style)
            return before + inner + after if inner.strip() else inner
        case Link(url=url, children=children):
            return _link(url, children, style)
        case _:
            assert_never(part)


def _link(url: str, children: tuple[Inline, ...], style: Style) -> str:
    if bare(children) == url and url.startswith(LINKED):
        return style.url(url)
    label = _inline(children, style)
    if url.startswith(LINKED):
        return style.link(label, url)
    return f"{label} ({style.text(url)})" if url and bare(children) != url else label

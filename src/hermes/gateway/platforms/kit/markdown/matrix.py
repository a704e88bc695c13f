"""The HTML of Matrix: lists, tables and headings as in any page, of the tags it allows."""

import re
from collections.abc import Sequence
from html import escape
from typing import assert_never

from hermes.gateway.platforms.kit.markdown.lines import LINKED
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

_TAGS = {"bold": "strong", "italic": "em", "strike": "del"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def render(blocks: Sequence[Block]) -> str:
    """A single paragraph has no tag of its own, as in what people write."""
    if len(blocks) == 1 and isinstance(blocks[0], Paragraph):
        return _inline(blocks[0].content)
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Heading(level=level, content=content):
            return f"<h{level}>{_inline(content)}</h{level}>"
        case Paragraph(content=content):
            return f"<p>{_inline(content)}</p>"
        case Fence(language=language, code=code):
            known = _LANGUAGE.fullmatch(language)
            attribute = f' class="language-{language}"' if known else ""
            return f"<pre><code{attribute}>{_text(code)}\n</code></pre>"
        case Quote(blocks=inner):
            return f"<blockquote>{render(inner)}</blockquote>"
        case Listing():
            return _list(block)
        case Table():
            return _table(block)
        case Rule():
            return "<hr>"
        case _:
            assert_never(block)


def _list(block: Listing) -> str:
    tag, attribute = ("ul", "") if block.start is None else ("ol", f' start="{block.start}"')
    if block.start == 1:
        attribute = ""
    items = "".join(f"<li>{_item(item)}</li>" for item in block.items)
    return f"<{tag}{attribute}>{items}</{tag}>"


def _item(blocks: Sequence[Block]) -> str:
    """The first paragraph of an item is its text; the rest follows as blocks."""
    if blocks and isinstance(blocks[0], Paragraph):
        return _inline(blocks[0].content) + "".join(_block(block) for block in blocks[1:])
    return "".join(_block(block) for block in blocks)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in table.header)
    rows = ("".join(f"<td>{_inline(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _inline(content: Sequence[Inline]) -> str:
    return "".join(_part(part) for part in content)


def _part(part: Inline) -> str:
    match part:
        case Text(value=value):
            return _text(value).replace("\n", "<br>")
        case Code(value=value):
            return f"<code>{_text(value)}</code>"
        case Url(value=value):
            return _text(value)
        case Styled(style=style, children=children):
            return f"<{_TAGS[style]}>{_inline(children)}</{_TAGS[style]}>"
        case Link(url=url, children=children):
            label = _inline(children)
            if url.startswith(LINKED):
                return f'<a href="{escape(url)}">{label}</a>'
            return f"{label} ({_text(url)})" if url and bare(children) != url else label
        case _:
            assert_never(part)


def _text(text: str) -> str:
    return escape(text, quote=False)

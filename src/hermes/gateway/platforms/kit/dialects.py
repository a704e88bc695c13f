"""The agent's Markdown in the dialect of a platform. Whatever comes in, something readable comes
out: what is no Markdown is text, what is not closed yet is closed, and all text is escaped."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import assert_never

import msgspec
from wcwidth import wcswidth

from hermes.gateway.platforms.kit.contract import Dialect
from hermes.gateway.platforms.kit.markdown import (
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
    closed,
    parse_markdown,
)
from hermes.util.text import clean

# Tables as lines of equal columns, for platforms that have none.


def aligned(table: Table) -> str:
    """Columns side by side, a line under the header."""
    cells = [[bare(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = max(len(row) for row in cells)
    cells = [row + [""] * (columns - len(row)) for row in cells]
    widths = [max(_width(row[column]) for row in cells) for column in range(columns)]
    lines = [_line(row, widths) for row in cells]
    divider = "-+-".join("-" * width for width in widths)
    return "\n".join([lines[0], divider, *lines[1:]])


def _line(row: list[str], widths: list[int]) -> str:
    padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
    return " | ".join(padded).rstrip()


def _width(text: str) -> int:
    width = wcswidth(text)
    return len(text) if width < 0 else width


# Markdown written as lines of text, for every dialect that has no lists and tables of its own.

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


# Text without any formatting: for platforms that show none, and for mail.


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _underlined(level: int, label: str) -> str:
    return f"{label}\n{('=' if level == 1 else '-') * min(len(label), 72)}" if label else ""


_NO_MARKS = {"bold": ("", ""), "italic": ("", ""), "strike": ("", "")}

PLAIN = Style(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} ({url})",
    fence=lambda language, code: code,  # noqa: ARG005 - nothing to show it with
    heading=lambda level, label: label,  # noqa: ARG005 - every dialect gets both
    quote=_quote,
    point="- ",
)

EMAIL = Style(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} <{url}>",
    fence=lambda language, code: "\n".join(f"    {line}".rstrip() for line in code.split("\n")),  # noqa: ARG005 - every dialect gets both
    heading=_underlined,
    quote=_quote,
    point="- ",
    rule="-" * 40,
)


# The HTML that Telegram reads: few tags, no lists, no tables, no quotes in quotes.

_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def _text(text: str) -> str:
    return escape(text, quote=False)


def _fence(language: str, code: str) -> str:
    if _LANGUAGE.fullmatch(language):
        return f'<pre><code class="language-{language}">{_text(code)}</code></pre>'
    return f"<pre>{_text(code)}</pre>"


STYLE = Style(
    text=_text,
    marks={"bold": ("<b>", "</b>"), "italic": ("<i>", "</i>"), "strike": ("<s>", "</s>")},
    code=lambda code: f"<code>{_text(code)}</code>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    url=_text,
    fence=_fence,
    heading=lambda level, label: f"<b>{label}</b>" if label else "",  # noqa: ARG005 - one size
    quote=lambda text: f"<blockquote>{text}</blockquote>",
    quotes_nest=False,
)


# Discord's Markdown: no tables, three sizes of headings, nothing longer than three backticks.

_NOTHING = "\u200b"
_SPECIAL = re.compile(r"([\\*_~`|\[\]])")
_LINE_START = re.compile(r"^([^\S\n]*)((?:-#|#{1,3}|>{1,3}|[-+])(?=\s))", re.MULTILINE)
_NUMBER = re.compile(r"^([^\S\n]*\d+)(?=\.\s)", re.MULTILINE)


def _paragraph(text: str) -> str:
    return _NUMBER.sub(r"\1\\", _LINE_START.sub(r"\1\\\2", text))


def _code(code: str) -> str:
    marks = "``" if "`" in code else "`"
    padding = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{marks}{padding}{code.replace('``', _NOTHING.join('``'))}{padding}{marks}"


def _discord_fence(language: str, code: str) -> str:
    name = language if _LANGUAGE.fullmatch(language) else ""
    return f"```{name}\n{code.replace('```', _NOTHING.join('```'))}\n```"


def _heading(level: int, label: str) -> str:
    if not label:
        return ""
    return f"{'#' * level} {label}" if level <= 3 else f"**{label.replace('**', '')}**"


DISCORD_STYLE = Style(
    text=lambda text: _SPECIAL.sub(r"\\\1", text),
    marks={"bold": ("**", "**"), "italic": ("*", "*"), "strike": ("~~", "~~")},
    code=_code,
    link=lambda label, url: f"[{label}]({url.replace('(', '%28').replace(')', '%29')})",
    fence=_discord_fence,
    heading=_heading,
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    paragraph=_paragraph,
    point="- ",
    quotes_nest=False,
)


# Slack's mrkdwn. It has no escape for its marks, so one that would count is kept apart from its
# word by a space of no width.

_MARK = re.compile(r"(?<!\w)([*_~])(?=\S)|(`)")
_QUOTE_LINE = re.compile(r"^([^\S\n]*)(?=&gt;)", re.MULTILINE)


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_text(text: str) -> str:
    return _MARK.sub(lambda match: match.group() + _NOTHING, _plain(text))


def _address(url: str) -> str:
    return _plain(url).replace("|", "%7C")


def _slack_fence(language: str, code: str) -> str:  # noqa: ARG001 - Slack would show the language
    return f"```\n{_plain(code).replace('```', _NOTHING.join('```'))}\n```"


def _slack_quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


SLACK_STYLE = Style(
    text=_slack_text,
    marks={"bold": ("*", "*"), "italic": ("_", "_"), "strike": ("~", "~")},
    code=lambda code: f"`{_plain(code).replace('`', 'ˋ')}`",
    link=lambda label, url: f"<{_address(url)}|{label.replace('|', '¦')}>",
    url=lambda url: f"<{_address(url)}>",
    fence=_slack_fence,
    heading=lambda level, label: f"*{label.replace('*', '')}*" if label else "",  # noqa: ARG005 - every dialect gets both
    quote=_slack_quote,
    paragraph=lambda text: _QUOTE_LINE.sub(rf"\1{_NOTHING}", text),
)


# The HTML of Matrix: lists, tables and headings as in any page, of the tags it allows.

_TAGS = {"bold": "strong", "italic": "em", "strike": "del"}


def matrix_render(blocks: Sequence[Block]) -> str:
    """A single paragraph has no tag of its own, as in what people write."""
    if len(blocks) == 1 and isinstance(blocks[0], Paragraph):
        return _matrix_inline(blocks[0].content)
    return "\n".join(_matrix_block(block) for block in blocks)


def _matrix_block(block: Block) -> str:
    match block:
        case Heading(level=level, content=content):
            return f"<h{level}>{_matrix_inline(content)}</h{level}>"
        case Paragraph(content=content):
            return f"<p>{_matrix_inline(content)}</p>"
        case Fence(language=language, code=code):
            known = _LANGUAGE.fullmatch(language)
            attribute = f' class="language-{language}"' if known else ""
            return f"<pre><code{attribute}>{_text(code)}\n</code></pre>"
        case Quote(blocks=inner):
            return f"<blockquote>{matrix_render(inner)}</blockquote>"
        case Listing():
            return _matrix_list(block)
        case Table():
            return _table(block)
        case Rule():
            return "<hr>"
        case _:
            assert_never(block)


def _matrix_list(block: Listing) -> str:
    tag, attribute = ("ul", "") if block.start is None else ("ol", f' start="{block.start}"')
    if block.start == 1:
        attribute = ""
    items = "".join(f"<li>{_item(item)}</li>" for item in block.items)
    return f"<{tag}{attribute}>{items}</{tag}>"


def _item(blocks: Sequence[Block]) -> str:
    """The first paragraph of an item is its text; the rest follows as blocks."""
    if blocks and isinstance(blocks[0], Paragraph):
        return _matrix_inline(blocks[0].content) + "".join(
            _matrix_block(block) for block in blocks[1:]
        )
    return "".join(_matrix_block(block) for block in blocks)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_matrix_inline(cell)}</th>" for cell in table.header)
    rows = ("".join(f"<td>{_matrix_inline(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _matrix_inline(content: Sequence[Inline]) -> str:
    return "".join(_matrix_part(part) for part in content)


def _matrix_part(part: Inline) -> str:
    match part:
        case Text(value=value):
            return _text(value).replace("\n", "<br>")
        case Code(value=value):
            return f"<code>{_text(value)}</code>"
        case Url(value=value):
            return _text(value)
        case Styled(style=style, children=children):
            return f"<{_TAGS[style]}>{_matrix_inline(children)}</{_TAGS[style]}>"
        case Link(url=url, children=children):
            label = _matrix_inline(children)
            if url.startswith(LINKED):
                return f'<a href="{escape(url)}">{label}</a>'
            return f"{label} ({_text(url)})" if url and bare(children) != url else label
        case _:
            assert_never(part)


def _lined(style: Style) -> Callable[[str], str]:
    return lambda text: render(parse_markdown(text), style)


_CONVERSIONS: dict[Dialect, Callable[[str], str]] = {
    "plain": _lined(PLAIN),
    "email": _lined(EMAIL),
    "telegram": _lined(STYLE),
    "slack": _lined(SLACK_STYLE),
    "discord": _lined(DISCORD_STYLE),
    "matrix": lambda text: matrix_render(parse_markdown(text)),
    "markdown": closed,
}


def convert(text: str, dialect: Dialect) -> str:
    """Markdown in a dialect. Text that says nothing becomes ""."""
    return _CONVERSIONS[dialect](clean(text))

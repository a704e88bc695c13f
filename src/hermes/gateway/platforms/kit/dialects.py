"""Renders Markdown in the dialect of a platform.

Every input gives readable output: text that is not Markdown stays text, unclosed marks are closed,
and all text is escaped.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import assert_never

import msgspec
from wcwidth import wcswidth

from hermes.gateway.platforms.kit.contract import Dialect
from hermes.gateway.platforms.kit.markdown import (
    Block,
    CodeSpan,
    FenceBlock,
    HeadingBlock,
    Inline,
    LinkSpan,
    ListBlock,
    ParagraphBlock,
    QuoteBlock,
    RuleBlock,
    StyledSpan,
    TableBlock,
    TextSpan,
    UrlSpan,
    close_open_fence,
    parse_markdown,
    plain_text,
)
from hermes.util.text import clean


def format_table(table: TableBlock) -> str:
    """Return the table as lines of aligned columns, for platforms without tables."""
    cells = [[plain_text(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = max(len(row) for row in cells)
    cells = [row + [""] * (columns - len(row)) for row in cells]
    widths = [max(_width(row[column]) for row in cells) for column in range(columns)]
    lines = [_format_row(row, widths) for row in cells]
    divider = "-+-".join("-" * width for width in widths)
    return "\n".join([lines[0], divider, *lines[1:]])


def _format_row(row: list[str], widths: list[int]) -> str:
    padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
    return " | ".join(padded).rstrip()


def _width(text: str) -> int:
    width = wcswidth(text)
    return len(text) if width < 0 else width


LINK_SCHEMES = ("http://", "https://", "mailto:", "tel:", "tg://", "matrix:")
"""Schemes of links; other addresses are rendered as text."""


def _identity(text: str) -> str:
    return text


class LineDialect(msgspec.Struct, frozen=True):
    """How a dialect without lists and tables of its own writes each element, line by line."""

    text: Callable[[str], str]
    marks: Mapping[str, tuple[str, str]]
    """Prefix and suffix of bold, italic and struck text."""
    code: Callable[[str], str]
    link: Callable[[str, str], str]
    """Takes the rendered label and the address."""
    fence: Callable[[str, str], str]
    """Takes the language and the code."""
    heading: Callable[[int, str], str]
    quote: Callable[[str], str]
    url: Callable[[str], str] = _identity
    escape_line_starts: Callable[[str], str] = _identity
    """Escapes marks that count only at the beginning of a line."""
    bullet: str = "• "
    rule: str = "──────────"
    quotes_nest: bool = True


def render_lines(blocks: Sequence[Block], style: LineDialect) -> str:
    return _blocks(blocks, style, "\n\n", quoted=False).strip("\n")


def _blocks(blocks: Sequence[Block], style: LineDialect, between: str, *, quoted: bool) -> str:
    written = (_block(block, style, quoted=quoted) for block in blocks)
    return between.join(part for part in written if part.strip())


def _block(block: Block, style: LineDialect, *, quoted: bool) -> str:
    match block:
        case HeadingBlock(level=level, content=content):
            return style.heading(level, _inline(content, style))
        case ParagraphBlock(content=content):
            return style.escape_line_starts(_inline(content, style))
        case FenceBlock(language=language, code=code):
            return style.fence(language, code) if code.strip() else ""
        case QuoteBlock(blocks=inner):
            text = _blocks(inner, style, "\n", quoted=True)
            return text if quoted and not style.quotes_nest else style.quote(text)
        case ListBlock():
            return _list(block, style, quoted=quoted)
        case TableBlock():
            return style.fence("", format_table(block))
        case RuleBlock():
            return style.rule
        case _:
            assert_never(block)


def _list(block: ListBlock, style: LineDialect, *, quoted: bool) -> str:
    lines = []
    for number, item in enumerate(block.items, block.start or 0):
        mark = style.bullet if block.start is None else f"{number}. "
        parts = [(part, _block(part, style, quoted=quoted)) for part in item]
        indented = [
            text
            if isinstance(part, FenceBlock | TableBlock)
            else text.replace("\n", "\n" + " " * len(mark))
            for part, text in parts
        ]
        lines.append(mark + ("\n" + " " * len(mark)).join(indented))
    return "\n".join(lines)


def _inline(content: Sequence[Inline], style: LineDialect) -> str:
    return "".join(_span(part, style) for part in content)


def _span(part: Inline, style: LineDialect) -> str:
    match part:
        case TextSpan(value=value):
            return style.text(value)
        case CodeSpan(value=value):
            return style.code(value)
        case UrlSpan(value=value):
            return style.url(value)
        case StyledSpan(style=name, children=children):
            before, after = style.marks[name]
            inner = _inline(children, style)
            return before + inner + after if inner.strip() else inner
        case LinkSpan(url=url, children=children):
            return _link(url, children, style)
        case _:
            assert_never(part)


def _link(url: str, children: tuple[Inline, ...], style: LineDialect) -> str:
    if plain_text(children) == url and url.startswith(LINK_SCHEMES):
        return style.url(url)
    label = _inline(children, style)
    if url.startswith(LINK_SCHEMES):
        return style.link(label, url)
    return f"{label} ({style.text(url)})" if url and plain_text(children) != url else label


def _quote_lines(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _underline(level: int, label: str) -> str:
    return f"{label}\n{('=' if level == 1 else '-') * min(len(label), 72)}" if label else ""


_NO_MARKS = {"bold": ("", ""), "italic": ("", ""), "strike": ("", "")}

PLAIN = LineDialect(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} ({url})",
    fence=lambda language, code: code,  # noqa: ARG005 - nothing to show it with
    heading=lambda level, label: label,  # noqa: ARG005 - every dialect gets both
    quote=_quote_lines,
    bullet="- ",
)

EMAIL = LineDialect(
    text=str,
    marks=_NO_MARKS,
    code=str,
    link=lambda label, url: f"{label} <{url}>",
    fence=lambda language, code: "\n".join(f"    {line}".rstrip() for line in code.split("\n")),  # noqa: ARG005 - every dialect gets both
    heading=_underline,
    quote=_quote_lines,
    bullet="- ",
    rule="-" * 40,
)


_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def _escape_html(text: str) -> str:
    return escape(text, quote=False)


def _telegram_fence(language: str, code: str) -> str:
    if _LANGUAGE.fullmatch(language):
        return f'<pre><code class="language-{language}">{_escape_html(code)}</code></pre>'
    return f"<pre>{_escape_html(code)}</pre>"


TELEGRAM = LineDialect(
    text=_escape_html,
    marks={"bold": ("<b>", "</b>"), "italic": ("<i>", "</i>"), "strike": ("<s>", "</s>")},
    code=lambda code: f"<code>{_escape_html(code)}</code>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    url=_escape_html,
    fence=_telegram_fence,
    heading=lambda level, label: f"<b>{label}</b>" if label else "",  # noqa: ARG005 - one size
    quote=lambda text: f"<blockquote>{text}</blockquote>",
    quotes_nest=False,
)


_ZERO_WIDTH_SPACE = "\u200b"
_DISCORD_SPECIAL = re.compile(r"([\\*_~`|\[\]])")
_DISCORD_LINE_START = re.compile(r"^([^\S\n]*)((?:-#|#{1,3}|>{1,3}|[-+])(?=\s))", re.MULTILINE)
_DISCORD_NUMBER = re.compile(r"^([^\S\n]*\d+)(?=\.\s)", re.MULTILINE)


def _discord_paragraph(text: str) -> str:
    return _DISCORD_NUMBER.sub(r"\1\\", _DISCORD_LINE_START.sub(r"\1\\\2", text))


def _discord_code(code: str) -> str:
    marks = "``" if "`" in code else "`"
    padding = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{marks}{padding}{code.replace('``', _ZERO_WIDTH_SPACE.join('``'))}{padding}{marks}"


def _discord_fence(language: str, code: str) -> str:
    name = language if _LANGUAGE.fullmatch(language) else ""
    return f"```{name}\n{code.replace('```', _ZERO_WIDTH_SPACE.join('```'))}\n```"


def _discord_heading(level: int, label: str) -> str:
    if not label:
        return ""
    return f"{'#' * level} {label}" if level <= 3 else f"**{label.replace('**', '')}**"


DISCORD = LineDialect(
    text=lambda text: _DISCORD_SPECIAL.sub(r"\\\1", text),
    marks={"bold": ("**", "**"), "italic": ("*", "*"), "strike": ("~~", "~~")},
    code=_discord_code,
    link=lambda label, url: f"[{label}]({url.replace('(', '%28').replace(')', '%29')})",
    fence=_discord_fence,
    heading=_discord_heading,
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    escape_line_starts=_discord_paragraph,
    bullet="- ",
    quotes_nest=False,
)


_SLACK_MARK = re.compile(r"(?<!\w)([*_~])(?=\S)|(`)")
_SLACK_QUOTE_LINE = re.compile(r"^([^\S\n]*)(?=&gt;)", re.MULTILINE)


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_text(text: str) -> str:
    return _SLACK_MARK.sub(lambda match: match.group() + _ZERO_WIDTH_SPACE, _escape_slack(text))


def _slack_url(url: str) -> str:
    return _escape_slack(url).replace("|", "%7C")


def _slack_fence(language: str, code: str) -> str:  # noqa: ARG001 - Slack would show the language
    return f"```\n{_escape_slack(code).replace('```', _ZERO_WIDTH_SPACE.join('```'))}\n```"


def _slack_quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


SLACK = LineDialect(
    text=_slack_text,
    marks={"bold": ("*", "*"), "italic": ("_", "_"), "strike": ("~", "~")},
    code=lambda code: f"`{_escape_slack(code).replace('`', 'ˋ')}`",
    link=lambda label, url: f"<{_slack_url(url)}|{label.replace('|', '¦')}>",
    url=lambda url: f"<{_slack_url(url)}>",
    fence=_slack_fence,
    heading=lambda level, label: f"*{label.replace('*', '')}*" if label else "",  # noqa: ARG005 - every dialect gets both
    quote=_slack_quote,
    escape_line_starts=lambda text: _SLACK_QUOTE_LINE.sub(rf"\1{_ZERO_WIDTH_SPACE}", text),
)


_MATRIX_TAGS = {"bold": "strong", "italic": "em", "strike": "del"}


def render_matrix(blocks: Sequence[Block]) -> str:
    """A single paragraph gets no tag, as in messages that people write."""
    if len(blocks) == 1 and isinstance(blocks[0], ParagraphBlock):
        return _matrix_inline(blocks[0].content)
    return "\n".join(_matrix_block(block) for block in blocks)


def _matrix_block(block: Block) -> str:
    match block:
        case HeadingBlock(level=level, content=content):
            return f"<h{level}>{_matrix_inline(content)}</h{level}>"
        case ParagraphBlock(content=content):
            return f"<p>{_matrix_inline(content)}</p>"
        case FenceBlock(language=language, code=code):
            known = _LANGUAGE.fullmatch(language)
            attribute = f' class="language-{language}"' if known else ""
            return f"<pre><code{attribute}>{_escape_html(code)}\n</code></pre>"
        case QuoteBlock(blocks=inner):
            return f"<blockquote>{render_matrix(inner)}</blockquote>"
        case ListBlock():
            return _matrix_list(block)
        case TableBlock():
            return _matrix_table(block)
        case RuleBlock():
            return "<hr>"
        case _:
            assert_never(block)


def _matrix_list(block: ListBlock) -> str:
    tag, attribute = ("ul", "") if block.start is None else ("ol", f' start="{block.start}"')
    if block.start == 1:
        attribute = ""
    items = "".join(f"<li>{_matrix_item(item)}</li>" for item in block.items)
    return f"<{tag}{attribute}>{items}</{tag}>"


def _matrix_item(blocks: Sequence[Block]) -> str:
    """The first paragraph of an item is inline text; the rest follows as blocks."""
    if blocks and isinstance(blocks[0], ParagraphBlock):
        return _matrix_inline(blocks[0].content) + "".join(
            _matrix_block(block) for block in blocks[1:]
        )
    return "".join(_matrix_block(block) for block in blocks)


def _matrix_table(table: TableBlock) -> str:
    head = "".join(f"<th>{_matrix_inline(cell)}</th>" for cell in table.header)
    rows = ("".join(f"<td>{_matrix_inline(cell)}</td>" for cell in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _matrix_inline(content: Sequence[Inline]) -> str:
    return "".join(_matrix_span(part) for part in content)


def _matrix_span(part: Inline) -> str:
    match part:
        case TextSpan(value=value):
            return _escape_html(value).replace("\n", "<br>")
        case CodeSpan(value=value):
            return f"<code>{_escape_html(value)}</code>"
        case UrlSpan(value=value):
            return _escape_html(value)
        case StyledSpan(style=style, children=children):
            return f"<{_MATRIX_TAGS[style]}>{_matrix_inline(children)}</{_MATRIX_TAGS[style]}>"
        case LinkSpan(url=url, children=children):
            label = _matrix_inline(children)
            if url.startswith(LINK_SCHEMES):
                return f'<a href="{escape(url)}">{label}</a>'
            return (
                f"{label} ({_escape_html(url)})" if url and plain_text(children) != url else label
            )
        case _:
            assert_never(part)


def _line_renderer(style: LineDialect) -> Callable[[str], str]:
    return lambda text: render_lines(parse_markdown(text), style)


_CONVERSIONS: dict[Dialect, Callable[[str], str]] = {
    "plain": _line_renderer(PLAIN),
    "email": _line_renderer(EMAIL),
    "telegram": _line_renderer(TELEGRAM),
    "slack": _line_renderer(SLACK),
    "discord": _line_renderer(DISCORD),
    "matrix": lambda text: render_matrix(parse_markdown(text)),
    "markdown": close_open_fence,
}


def convert(text: str, dialect: Dialect) -> str:
    """Render Markdown in a dialect. Text without content becomes ""."""
    return _CONVERSIONS[dialect](clean(text))

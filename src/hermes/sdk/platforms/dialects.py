"""Renders Markdown in the dialect of a platform.

Every input gives readable output: text that is not Markdown stays text, unclosed marks are closed,
and all text is escaped.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

import msgspec
from markdown_it.tree import SyntaxTreeNode
from wcwidth import wcswidth

from hermes.sdk.platforms.contract import Dialect
from hermes.sdk.platforms.markdown import (
    close_open_fence,
    inline_nodes,
    parse_markdown,
    plain_text,
    table_rows,
)
from hermes.util.text import clean


def format_table(table: SyntaxTreeNode) -> str:
    """Return the table as lines of aligned columns, for platforms without tables."""
    rows = [[plain_text(cell) for cell in row] for row in table_rows(table)]
    columns = max(len(row) for row in rows)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(columns)]
    lines = [
        " | ".join(cell + " " * (widths[i] - _width(cell)) for i, cell in enumerate(row)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


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
    marks: Mapping[str, tuple[str, str]]  #: Prefix and suffix of `strong`, `em` and `s`.
    code: Callable[[str], str]
    link: Callable[[str, str], str]  #: Takes the rendered label and the address.
    fence: Callable[[str, str], str]  #: Takes the language and the code.
    heading: Callable[[int, str], str]
    quote: Callable[[str], str]
    url: Callable[[str], str] = _identity
    escape_line_starts: Callable[[str], str] = _identity
    """Escapes marks that count only at the beginning of a line."""
    bullet: str = "• "
    rule: str = "──────────"
    quotes_nest: bool = True


def render_lines(blocks: Sequence[SyntaxTreeNode], style: LineDialect) -> str:
    return _blocks(blocks, style, "\n\n", quoted=False).strip("\n")


def _blocks(
    blocks: Sequence[SyntaxTreeNode], style: LineDialect, between: str, *, quoted: bool
) -> str:
    written = (_block(block, style, quoted=quoted) for block in blocks)
    return between.join(part for part in written if part.strip())


def _block(block: SyntaxTreeNode, style: LineDialect, *, quoted: bool) -> str:
    match block.type:
        case "heading":
            return style.heading(_level(block), _inline(inline_nodes(block), style))
        case "fence":
            return style.fence(_language(block), _code(block)) if block.content.strip() else ""
        case "blockquote":
            text = _blocks(block.children, style, "\n", quoted=True)
            return text if quoted and not style.quotes_nest else style.quote(text)
        case "bullet_list" | "ordered_list":
            return _list(block, style, quoted=quoted)
        case "table_rows":
            return style.fence("", format_table(block))
        case "hr":
            return style.rule
    return style.escape_line_starts(_inline(inline_nodes(block), style))


def _level(heading: SyntaxTreeNode) -> int:
    return int(heading.tag[1])


def _language(fence: SyntaxTreeNode) -> str:
    return (fence.info.split() or [""])[0]


def _code(fence: SyntaxTreeNode) -> str:
    return fence.content.removesuffix("\n")


def _list(block: SyntaxTreeNode, style: LineDialect, *, quoted: bool) -> str:
    lines = []
    for number, item in enumerate(block.children, int(block.attrs.get("start", 1))):
        mark = style.bullet if block.type == "bullet_list" else f"{number}. "
        parts = [(part, _block(part, style, quoted=quoted)) for part in item.children]
        indented = [
            text
            if part.type in ("fence", "table_rows")
            else text.replace("\n", "\n" + " " * len(mark))
            for part, text in parts
        ]
        lines.append(mark + ("\n" + " " * len(mark)).join(indented))
    return "\n".join(lines)


def _inline(
    content: Sequence[SyntaxTreeNode], style: LineDialect, inside: frozenset[str] = frozenset()
) -> str:
    """`inside` are the kinds of emphasis around the content, which are not written again: some
    dialects cannot."""
    return "".join(_span(part, style, inside) for part in content)


def _span(part: SyntaxTreeNode, style: LineDialect, inside: frozenset[str]) -> str:
    match part.type:
        case "code_inline":
            return style.code(part.content)
        case "url":
            return style.url(part.content)
        case "softbreak" | "hardbreak":
            return "\n"
        case "strong" | "em" | "s":
            inner = _inline(part.children, style, inside | {part.type})
            before, after = style.marks[part.type]
            marked = inner.strip() and part.type not in inside
            return before + inner + after if marked else inner
        case "link" | "image":
            url, words = link_address(part), plain_text(part.children)
            if words in ("", url) and url.startswith(LINK_SCHEMES):
                return style.url(url)
            label = _inline(part.children, style, inside)
            if url.startswith(LINK_SCHEMES):
                return style.link(label, url)
            return f"{label} ({style.text(url)})".strip() if url and words != url else label
    return style.text(part.content)


def link_address(link: SyntaxTreeNode) -> str:
    return str(link.attrs.get("href") or link.attrs.get("src") or "")


def _quote_lines(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _underline(level: int, label: str) -> str:
    return f"{label}\n{('=' if level == 1 else '-') * min(len(label), 72)}" if label else ""


_NO_MARKS = {"strong": ("", ""), "em": ("", ""), "s": ("", "")}

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
    marks={"strong": ("<b>", "</b>"), "em": ("<i>", "</i>"), "s": ("<s>", "</s>")},
    code=lambda code: f"<code>{_escape_html(code)}</code>",
    link=lambda label, url: f'<a href="{escape(url)}">{label}</a>',
    url=_escape_html,
    fence=_telegram_fence,
    heading=lambda level, label: f"<b>{label}</b>" if label else "",  # noqa: ARG005 - one size
    quote=lambda text: f"<blockquote>{text}</blockquote>",
    quotes_nest=False,
)


_ZERO_WIDTH_SPACE = "\u200b"


def _quote_each_line(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


_DISCORD_SPECIAL = re.compile(r"([\\*_~`|\[\]])")
_DISCORD_LINE_START = re.compile(r"^([^\S\n]*)((?:-#|#{1,3}|>{1,3}|[-+])(?=\s))", re.MULTILINE)
_DISCORD_NUMBER = re.compile(r"^([^\S\n]*\d+)(?=\.\s)", re.MULTILINE)


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
    marks={"strong": ("**", "**"), "em": ("*", "*"), "s": ("~~", "~~")},
    code=_discord_code,
    link=lambda label, url: f"[{label}]({url.replace('(', '%28').replace(')', '%29')})",
    fence=_discord_fence,
    heading=_discord_heading,
    quote=_quote_each_line,
    escape_line_starts=lambda text: _DISCORD_NUMBER.sub(
        r"\1\\", _DISCORD_LINE_START.sub(r"\1\\\2", text)
    ),
    bullet="- ",
    quotes_nest=False,
)


_SLACK_MARK = re.compile(r"(?<!\w)([*_~])(?=\S)|(`)")
_SLACK_QUOTE_LINE = re.compile(r"^([^\S\n]*)(?=&gt;)", re.MULTILINE)


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_url(url: str) -> str:
    return _escape_slack(url).replace("|", "%7C")


def _slack_fence(language: str, code: str) -> str:  # noqa: ARG001 - Slack would show the language
    return f"```\n{_escape_slack(code).replace('```', _ZERO_WIDTH_SPACE.join('```'))}\n```"


SLACK = LineDialect(
    text=lambda text: _SLACK_MARK.sub(
        lambda match: match.group() + _ZERO_WIDTH_SPACE, _escape_slack(text)
    ),
    marks={"strong": ("*", "*"), "em": ("_", "_"), "s": ("~", "~")},
    code=lambda code: f"`{_escape_slack(code).replace('`', 'ˋ')}`",
    link=lambda label, url: f"<{_slack_url(url)}|{label.replace('|', '¦')}>",
    url=lambda url: f"<{_slack_url(url)}>",
    fence=_slack_fence,
    heading=lambda level, label: f"*{label.replace('*', '')}*" if label else "",  # noqa: ARG005 - every dialect gets both
    quote=_quote_each_line,
    escape_line_starts=lambda text: _SLACK_QUOTE_LINE.sub(rf"\1{_ZERO_WIDTH_SPACE}", text),
)


_MATRIX_TAGS = {"strong": "strong", "em": "em", "s": "del"}


def render_matrix(blocks: Sequence[SyntaxTreeNode]) -> str:
    """A single paragraph gets no tag, as in messages that people write."""
    if len(blocks) == 1 and blocks[0].type == "paragraph":
        return _matrix_inline(inline_nodes(blocks[0]))
    return "\n".join(_matrix_block(block) for block in blocks)


def _matrix_block(block: SyntaxTreeNode) -> str:
    match block.type:
        case "heading":
            return f"<h{_level(block)}>{_matrix_inline(inline_nodes(block))}</h{_level(block)}>"
        case "fence":
            known = _LANGUAGE.fullmatch(_language(block))
            attribute = f' class="language-{_language(block)}"' if known else ""
            return f"<pre><code{attribute}>{_escape_html(_code(block))}\n</code></pre>"
        case "blockquote":
            return f"<blockquote>{render_matrix(block.children)}</blockquote>"
        case "bullet_list" | "ordered_list":
            tag = "ul" if block.type == "bullet_list" else "ol"
            start = f' start="{block.attrs["start"]}"' if "start" in block.attrs else ""
            items = "".join(f"<li>{_matrix_item(item)}</li>" for item in block.children)
            return f"<{tag}{start}>{items}</{tag}>"
        case "table_rows":
            first, *rows = table_rows(block)
            head = "".join(f"<th>{_matrix_inline(cell)}</th>" for cell in first)
            cells = ("".join(f"<td>{_matrix_inline(cell)}</td>" for cell in row) for row in rows)
            body = "".join(f"<tr>{row}</tr>" for row in cells)
            return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        case "hr":
            return "<hr>"
    return f"<p>{_matrix_inline(inline_nodes(block))}</p>"


def _matrix_item(item: SyntaxTreeNode) -> str:
    """The first paragraph of an item is inline text; the rest follows as blocks."""
    inline = item.children[:1] if item.children and item.children[0].type == "paragraph" else []
    rest = item.children[len(inline) :]
    return "".join([*(_matrix_inline(inline_nodes(b)) for b in inline), *map(_matrix_block, rest)])


def _matrix_inline(content: Sequence[SyntaxTreeNode]) -> str:
    return "".join(_matrix_span(part) for part in content)


def _matrix_span(part: SyntaxTreeNode) -> str:
    match part.type:
        case "code_inline":
            return f"<code>{_escape_html(part.content)}</code>"
        case "softbreak" | "hardbreak":
            return "<br>"
        case "strong" | "em" | "s":
            tag = _MATRIX_TAGS[part.type]
            return f"<{tag}>{_matrix_inline(part.children)}</{tag}>"
        case "link" | "image":
            url, words = link_address(part), plain_text(part.children)
            label = _matrix_inline(part.children) or _escape_html(url)
            if url.startswith(LINK_SCHEMES):
                return f'<a href="{escape(url)}">{label}</a>'
            return f"{label} ({_escape_html(url)})" if url and words not in ("", url) else label
    return _escape_html(part.content)


def _line_renderer(style: LineDialect) -> Callable[[str], str]:
    return lambda text: render_lines(parse_markdown(text), style)


_TILDES = re.compile("~+")
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
    text = clean(text)
    try:
        return _CONVERSIONS[dialect](text)
    except RecursionError:  # nested hundreds of levels deep: shown as code, as it was written
        mark = "~" * (max(map(len, _TILDES.findall(text)), default=0) + 3)
        return _CONVERSIONS[dialect](f"{mark}\n{text}\n{mark}")

"""Text of a conversation as HTML: code blocks, code, bold and headings; the rest stays text.

Nothing of the text is ever taken for HTML, and no address in it becomes a link: a page is safe to
open whatever the conversation holds.
"""

import re
from html import escape

from hermes.app.transcripts.markup import HEADING, LINE_LIMIT, Block, blocks, inline

_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")


def prose(text: str) -> str:
    """`text`, which may be Markdown, as HTML blocks."""
    return "".join(_block(block) for block in blocks(text))


def _block(block: Block) -> str:
    if block.fence:
        caption = f'<p class="note">{escape(block.language)}</p>' if block.language else ""
        return caption + preformatted("\n".join(block.lines))
    text = "\n".join(_line(line) for line in block.lines).strip("\n")
    return f'<div class="text" dir="auto">{text}</div>' if text else ""


def preformatted(text: str) -> str:
    return f'<pre dir="auto">{escape(text)}</pre>'


def _line(line: str) -> str:
    heading = HEADING.fullmatch(line) if len(line) <= LINE_LIMIT else None
    if heading:
        return f"<strong>{inline(heading[2], _code, escape)}</strong>"
    return inline(line, _code, _bold)


def _code(_ticks: str, text: str) -> str:
    return f"<code>{escape(text.strip())}</code>"


def _bold(text: str) -> str:
    return (
        escape(text) if len(text) > LINE_LIMIT else _BOLD.sub(r"<strong>\1</strong>", escape(text))
    )

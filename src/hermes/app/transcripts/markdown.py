"""A session as Markdown for people: a heading for each turn, tool calls in a line each."""

import re
from collections.abc import Iterator

from hermes.app.transcripts.markup import HEADING, LINE_LIMIT, Block, blocks, inline
from hermes.app.transcripts.outline import Call, Entry, Transcript
from hermes.app.transcripts.wording import facts, moment
from hermes.util.plain import plain_line

RESULT_LIMIT = 2000
"""Characters of a tool's result that are kept."""
ARGUMENTS_LIMIT = 300

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def to_markdown(transcript: Transcript) -> str:
    """The whole conversation."""
    return "\n\n".join(_blocks(transcript)) + "\n"


def _blocks(transcript: Transcript) -> Iterator[str]:
    yield f"# {_escaped(transcript.name)}"
    yield "\n".join(f"- {label}: {_code(value)}" for label, value in facts(transcript))
    for turn in transcript.turns:
        if turn.number:
            yield f"## Turn {turn.number}" + (f", {moment(turn.time)}" if turn.time else "")
        speaker = ""
        for entry in turn.entries:
            if entry.role != speaker:
                speaker = entry.role
                yield f"**{speaker.capitalize()}**"
            yield from _entry(entry)


def _entry(entry: Entry) -> Iterator[str]:
    if entry.reasoning:
        thought = _said(entry.reasoning)
        yield f"<details>\n<summary>Reasoning</summary>\n\n{thought}\n\n</details>"
    if entry.text:
        yield _said(entry.text)
    for image in entry.images:
        yield f"[image] {_code(plain_line(image[:80]))}" + ("…" if len(image) > 80 else "")
    for call in entry.calls:
        yield from _call(call)


def _call(call: Call) -> Iterator[str]:
    arguments = " ".join(call.arguments.split())
    if len(arguments) > ARGUMENTS_LIMIT:
        arguments = arguments[:ARGUMENTS_LIMIT] + "…"
    mark = "✗" if call.failed else "▸"
    yield f"{mark} **{_escaped(call.name)}** {_code(arguments) if arguments else ''}".rstrip()
    if call.result is None:
        yield "*(it did not finish)*"
        return
    if call.result:
        yield _fenced(call.result[:RESULT_LIMIT])
    missing = len(call.result) - RESULT_LIMIT
    if missing > 0:
        yield f"*({missing:,} more characters are not shown)*"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    """`text` as code within a line, with backticks of its own or not."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _said(text: str) -> str:
    """`text` as a guest of the page: its headings below those of the page, its tags as text, and
    its code blocks closed."""
    return "\n".join(line for block in blocks(text) for line in _lines(block))


def _lines(block: Block) -> Iterator[str]:
    if block.fence:
        yield from (block.fence + block.language, *block.lines, block.fence)
        return
    for line in block.lines:
        heading = HEADING.match(line[:LINE_LIMIT])
        level = "#" * min(len(heading[1]) + 2, 6) if heading else ""
        content = line.lstrip(" ").lstrip("#") if heading else line
        yield level + inline(content, _kept, _without_tags)


def _kept(ticks: str, text: str) -> str:
    return f"{ticks}{text}{ticks}"


def _without_tags(text: str) -> str:
    return _TAG.sub("&lt;", text)

"""Export of sessions as JSON Lines, Markdown or HTML, one session at a time.

Markdown and HTML are written from a `Transcript`, whose texts are plain (see `plain`).
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.messages import Assistant, Image, System, ToolResult, User
from hermes.core.ports import SessionInfo
from hermes.store import Progress, Record, SessionStore, from_row, ignore_progress, row_of
from hermes.util.text import escaped_json, many, plain, plain_line

# The Markdown of a message: headings, code blocks and code within a line.

LINE_LIMIT = 2000  #: A longer line is not parsed, so that the work stays linear.

HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)[^`]*+")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


class TextBlock(msgspec.Struct, frozen=True):
    """A code block, or lines of prose."""

    lines: tuple[str, ...]
    fence: str = ""  #: Empty for prose.
    language: str = ""  #: The text after the fence.


def blocks(text: str) -> Iterator[TextBlock]:
    """Split a text into blocks. A code block that is not closed ends with the text."""
    prose: list[str] = []
    rest = iter(text.strip("\n").split("\n"))
    for line in rest:
        opened = _FENCE.fullmatch(line) if len(line) <= LINE_LIMIT else None
        if opened:
            yield TextBlock(tuple(prose))
            prose = []
            language = line.strip().removeprefix(opened[1]).strip()
            fence, code = opened[1], list[str]()
            for inner in rest:
                mark = inner.strip()
                if len(mark) >= len(fence) and mark == fence[0] * len(mark):
                    break
                code.append(inner)
            yield TextBlock(tuple(code), fence, language)
        else:
            prose.append(line)
    yield TextBlock(tuple(prose))


def map_inline(line: str, code: Callable[[str, str], str], other: Callable[[str], str]) -> str:
    """Replace each piece of code by `code(ticks, text)` and the text between by `other(text)`."""
    if len(line) > LINE_LIMIT:
        return other(line)
    parts: list[str] = []
    end = 0
    for found in _CODE.finditer(line):
        parts += [other(line[end : found.start()]), code(found[1], found[2])]
        end = found.end()
    return "".join([*parts, other(line[end:])])


# A stored session as turns of messages and tool calls.

Row = dict[str, Any]


class TranscriptCall(msgspec.Struct, frozen=True):
    """A tool call and its result."""

    id: str
    name: str
    arguments: str
    result: str | None = None  #: None if the call did not finish.
    failed: bool = False


class TranscriptEntry(msgspec.Struct, frozen=True):
    """One message. A reply includes the results of its calls."""

    role: str
    time: float  #: 0 if unknown, as for messages taken over by a compaction or a branch.
    text: str = ""
    reasoning: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[TranscriptCall, ...] = ()
    turn: int = 0  #: The number of the turn that a message of the user begins; 0 for others.


class Transcript(msgspec.Struct, frozen=True):
    id: str
    name: str  #: The title, or the beginning of the first message of the user.
    source: str
    model: str
    started_at: float
    ended_at: float | None
    end_reason: str
    tokens: int
    cost_usd: float | None
    message_count: int
    entries: tuple[TranscriptEntry, ...]


def outline(record: Record) -> Transcript:
    """Return the conversation of an exported session, without undone and compacted messages."""
    rows = conversation_rows(record)
    entries = tuple(_entries(rows))
    actual = record.get("actual_cost_usd")
    return Transcript(
        id=plain_line(str(record["id"])),
        name=_name(record, entries),
        source=plain_line(record.get("source") or ""),
        model=plain_line(record.get("model") or ""),
        started_at=record.get("started_at") or 0.0,
        ended_at=record.get("ended_at"),
        end_reason=plain_line(record.get("end_reason") or ""),
        tokens=sum(record.get(f"{kind}_tokens") or 0 for kind in _COUNTED),
        cost_usd=record.get("estimated_cost_usd") if actual is None else actual,
        message_count=len(rows),
        entries=entries,
    )


_COUNTED = ("input", "output", "cache_read", "cache_write")


def conversation_rows(record: Record) -> list[Row]:
    """Return the rows that belong to the conversation."""
    rows: list[Row] = record.get("messages") or []
    projection = record.get("projection")
    if not projection:
        return rows
    kept: list[Row] = []
    for piece in projection["basis"]:
        if isinstance(piece, dict):
            kept.append(piece)
        else:
            _, first, last = piece
            kept += [row for row in rows if first <= row["id"] <= (last or row["id"])]
    return kept + [row for row in rows if row["id"] > projection["after_id"]]


def _name(record: Record, entries: Iterable[TranscriptEntry]) -> str:
    if title := plain_line(record.get("title") or ""):
        return title
    texts = (entry.text for entry in entries if entry.role == "user" and entry.text)
    words = " ".join(next(texts, "").split())
    return (words[:63] + "…" if len(words) > 64 else words) or plain_line(str(record["id"]))


def _entries(rows: Iterable[Row]) -> Iterator[TranscriptEntry]:
    """Yield the messages, with results moved to their calls. A result without a call is its own."""
    reply: TranscriptEntry | None = None
    turns = count(1)
    for row in rows:
        message = from_row(row_of(row))
        time = float(row.get("timestamp") or 0.0)
        if isinstance(message, ToolResult):
            updated = reply and _add_result(reply, message)
            if updated:
                reply = updated
            else:
                yield TranscriptEntry("tool", time, calls=(_finished_call(message, ""),))
            continue
        if reply:
            yield reply
            reply = None
        match message:
            case Assistant():
                calls = tuple(
                    TranscriptCall(call.id, plain_line(call.name), plain(call.arguments))
                    for call in message.calls
                )
                reply = TranscriptEntry(
                    "assistant", time, plain(message.text), plain(message.thinking), calls=calls
                )
            case User():
                images = tuple(part.url for part in message.parts if isinstance(part, Image))
                text = plain(message.text)
                yield TranscriptEntry("user", time, text, images=images, turn=next(turns))
            case System():
                yield TranscriptEntry("system", time, plain(message.text))
    if reply:
        yield reply


def _add_result(reply: TranscriptEntry, result: ToolResult) -> TranscriptEntry | None:
    """Return the reply with the result at its first open call of that id; None without one.

    Ids repeat within a session (some models count from zero in each reply), never within a reply.
    """
    for place, call in enumerate(reply.calls):
        if call.id == result.call_id and call.result is None:
            done = _finished_call(result, call.arguments)
            calls = (*reply.calls[:place], done, *reply.calls[place + 1 :])
            return msgspec.structs.replace(reply, calls=calls)
    return None


def _finished_call(result: ToolResult, arguments: str) -> TranscriptCall:
    return TranscriptCall(
        result.call_id, plain_line(result.name), arguments, plain(result.text), result.failed
    )


# Facts about a session, for Markdown and HTML.


def moment(timestamp: float) -> str:
    """Return the local time as `2026-01-31 14:05`."""
    return local(timestamp).strftime("%Y-%m-%d %H:%M")


def local(timestamp: float) -> datetime:
    """Return the local time of a timestamp; the epoch for an invalid one."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone()


def cost(dollars: float) -> str:
    """Return an amount with two decimals, or four below one dollar."""
    return f"${dollars:.4f}" if 0 < dollars < 1 else f"${dollars:,.2f}"


def facts(transcript: Transcript) -> list[tuple[str, str]]:
    """Return the known facts about a session as (label, value)."""
    ended = ""
    if transcript.ended_at is not None:
        reason = f" ({transcript.end_reason})" if transcript.end_reason else ""
        ended = moment(transcript.ended_at) + reason
    dollars = transcript.cost_usd
    known = [
        ("Session", transcript.id),
        ("Source", transcript.source),
        ("Model", transcript.model),
        ("Started", moment(transcript.started_at)),
        ("Ended", ended),
        ("Messages", f"{transcript.message_count:,}"),
        ("Tokens", f"{transcript.tokens:,}" if transcript.tokens else ""),
        ("Cost", "" if dollars is None else cost(dollars)),
    ]
    return [(label, value) for label, value in known if value]


# A session as Markdown: a heading for each turn, a line for each tool call.

RESULT_LIMIT = 2000  #: Characters of a tool result that are shown.
ARGUMENTS_LIMIT = 300

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")
ESCAPE = r"\\\1"


def to_markdown(transcript: Transcript) -> str:
    return "\n\n".join(_markdown_blocks(transcript)) + "\n"


def _markdown_blocks(transcript: Transcript) -> Iterator[str]:
    yield f"# {_SPECIAL.sub(ESCAPE, transcript.name)}"
    yield "\n".join(f"- {label}: {_code(value)}" for label, value in facts(transcript))
    speaker = ""
    for entry in transcript.entries:
        if entry.turn:
            yield f"## Turn {entry.turn}" + (f", {moment(entry.time)}" if entry.time else "")
        if entry.role != speaker or entry.turn:
            speaker = entry.role
            yield f"**{speaker.capitalize()}**"
        yield from _markdown_entry(entry)


def _markdown_entry(entry: TranscriptEntry) -> Iterator[str]:
    if entry.reasoning:
        thought = _message_text(entry.reasoning)
        yield f"<details>\n<summary>Reasoning</summary>\n\n{thought}\n\n</details>"
    if entry.text:
        yield _message_text(entry.text)
    for image in entry.images:
        yield f"[image] {_code(plain_line(image[:80]))}" + ("…" if len(image) > 80 else "")
    for call in entry.calls:
        yield from _markdown_call(call)


def _markdown_call(call: TranscriptCall) -> Iterator[str]:
    arguments = " ".join(call.arguments.split())
    if len(arguments) > ARGUMENTS_LIMIT:
        arguments = arguments[:ARGUMENTS_LIMIT] + "…"
    mark, name = "✗" if call.failed else "▸", _SPECIAL.sub(ESCAPE, call.name)
    yield f"{mark} **{name}** {_code(arguments) if arguments else ''}".rstrip()
    if call.result is None:
        yield "*(it did not finish)*"
        return
    if text := call.result[:RESULT_LIMIT]:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`{3,}", text)), default=0))
        yield f"{fence}text\n{text.rstrip()}\n{fence}"
    missing = len(call.result) - RESULT_LIMIT
    if missing > 0:
        yield f"*({missing:,} more characters are not shown)*"


def _code(text: str) -> str:
    """Return `text` as code within a line; it may contain backticks."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _message_text(text: str) -> str:
    """Return Markdown to embed: headings below those of the page, HTML tags escaped, and code
    blocks closed."""
    lines: list[str] = []
    for block in blocks(text):
        if block.fence:
            lines += (block.fence + block.language, *block.lines, block.fence)
            continue
        for line in block.lines:
            heading = HEADING.match(line[:LINE_LIMIT])
            level = "#" * min(len(heading[1]) + 2, 6) if heading else ""
            content = line.lstrip(" ").lstrip("#") if heading else line
            escaped = map_inline(content, "{0}{1}{0}".format, lambda t: _TAG.sub("&lt;", t))
            lines.append(level + escaped)
    return "\n".join(lines)


# Sessions as one HTML file without scripts, fonts and links to other sites. Texts of a session are
# always escaped, so that a page is safe to open.
#
# A page is written in pieces, so that a large store need not fit in memory: `page_start` with the
# index, `session_section` for each session, `PAGE_END`.

PAGE_HEAD = Path(__file__).with_name("transcripts.html")
PAGE_RESULT_LIMIT = 20_000  #: Characters of a tool result that are shown.
BRIEF_LIMIT = 90

_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")

PAGE_END = "<footer>Exported by Hermes.</footer>\n</body>\n</html>\n"


def page_start(sessions: Sequence[SessionInfo]) -> str:
    """Return the beginning of a page; for several sessions, with a list of them."""
    several = len(sessions) != 1
    title = f"{len(sessions):,} sessions" if several else display_name(sessions[0])
    head = PAGE_HEAD.read_text("utf-8").replace("TITLE", escape(title), 1)
    if not several:
        return f'{head}<body id="top">\n'
    rows = []
    for number, info in enumerate(sessions, start=1):
        count = many(info.message_count, "message")
        details = plain_line(f"{moment(info.started_at)} · {info.source} · {count}")
        rows.append(
            f'<li><a href="#session-{number}"><bdi>{escape(display_name(info))}</bdi></a>'
            f"<small>{escape(details)}</small></li>\n"
        )
    return f'{head}<body id="top">\n<h1>{title}</h1>\n<nav><ol>\n{"".join(rows)}</ol></nav>\n'


def display_name(info: SessionInfo) -> str:
    return plain_line(info.title) or plain_line(info.preview) or plain_line(info.id)


def session_section(transcript: Transcript, number: int, *, several: bool) -> Iterator[str]:
    """Yield the lines of one session; `number` is its position in the index."""
    level = "h2" if several else "h1"
    yield f'<article id="session-{number}">'
    yield f"<{level}><bdi>{escape(transcript.name)}</bdi></{level}>"
    shown = (
        f"<div><dt>{label}</dt><dd><bdi>{escape(value)}</bdi></dd></div>"
        for label, value in facts(transcript)
    )
    yield f'<dl class="facts">{"".join(shown)}</dl>'
    for entry in transcript.entries:
        if entry.turn:
            stamp = ""
            if entry.time:
                exact = local(entry.time).isoformat(timespec="seconds")
                stamp = f' · <time datetime="{exact}">{moment(entry.time)}</time>'
            yield f"<h3>Turn {entry.turn}{stamp}</h3>"
        yield _html_entry(entry)
    if several:
        yield '<p class="note"><a href="#top">back to the list</a></p>'
    yield "</article>"


def _html_entry(entry: TranscriptEntry) -> str:
    parts = [f'<p class="who">{escape(entry.role.capitalize())}</p>']
    if entry.reasoning:
        parts.append(
            f"<details><summary>Reasoning</summary><div>{_html_blocks(entry.reasoning)}</div></details>"
        )
    parts.append(_html_blocks(entry.text))
    for url in entry.images:
        if _PICTURE.fullmatch(url):
            parts.append(f'<img alt="image of the conversation" src="{escape(url)}">')
        else:  # it would have to be fetched
            address = escape(plain_line(url[:300]))
            parts.append(f'<p class="note">image: <code>{address}</code></p>')
    parts += [_html_call(call) for call in entry.calls]
    return f'<section class="said {escape(entry.role)}">{"".join(parts)}</section>'


def _html_call(call: TranscriptCall) -> str:
    brief = " ".join(call.arguments.split())
    shown = brief if len(brief) <= BRIEF_LIMIT else brief[:BRIEF_LIMIT] + "…"
    state = ' class="bad"' if call.failed else ""
    inside = [_preformatted(call.arguments)] if shown != call.arguments else []
    if call.result is None:
        inside.append('<p class="note">It did not finish.</p>')
    else:
        inside.append(_preformatted(call.result[:PAGE_RESULT_LIMIT]))
        missing = len(call.result) - PAGE_RESULT_LIMIT
        if missing > 0:
            inside.append(f'<p class="note">{missing:,} more characters are not shown.</p>')
    return (
        f"<details><summary{state}><b>{escape(call.name)}</b> "
        f'<span class="brief">{escape(shown)}</span></summary>{"".join(inside)}</details>'
    )


def _html_blocks(text: str) -> str:
    """Return a text, which may be Markdown, as HTML: code, bold and headings are formatted."""
    parts: list[str] = []
    for block in blocks(text):
        if block.fence:
            parts += [f'<p class="note">{escape(block.language)}</p>'] if block.language else []
            parts.append(_preformatted("\n".join(block.lines)))
        elif lines := "\n".join(map(_html_line, block.lines)).strip("\n"):
            parts.append(f'<div class="text" dir="auto">{lines}</div>')
    return "".join(parts)


def _preformatted(text: str) -> str:
    return f'<pre dir="auto">{escape(text)}</pre>'


def _html_line(line: str) -> str:
    def code(_ticks: str, text: str) -> str:
        return f"<code>{escape(text.strip())}</code>"

    if len(line) > LINE_LIMIT:
        return escape(line)
    if heading := HEADING.fullmatch(line):
        return f"<strong>{map_inline(heading[2], code, escape)}</strong>"
    return map_inline(line, code, lambda text: _BOLD.sub(r"<strong>\1</strong>", escape(text)))


class ExportFormat(StrEnum):
    """Only JSON Lines contain everything and can be imported."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"


SUFFIXES = {
    ".jsonl": ExportFormat.JSONL,
    ".ndjson": ExportFormat.JSONL,
    ".json": ExportFormat.JSONL,
    ".md": ExportFormat.MARKDOWN,
    ".markdown": ExportFormat.MARKDOWN,
    ".html": ExportFormat.HTML,
    ".htm": ExportFormat.HTML,
}


def format_of(path: Path) -> ExportFormat:
    """Return the format for a file name; JSON Lines, which lose nothing, for unknown endings."""
    return SUFFIXES.get(path.suffix.lower(), ExportFormat.JSONL)


def to_line(record: Record) -> str:
    """Return a session as a line of JSON Lines."""
    return escaped_json(msgspec.json.encode(record).decode()) + "\n"


async def export_sessions(
    store: SessionStore,
    sessions: Sequence[SessionInfo],
    form: ExportFormat,
    progress: Progress = ignore_progress,
) -> AsyncIterator[str]:
    """Yield the pieces of the file."""
    several = len(sessions) != 1
    if form is ExportFormat.HTML:
        yield page_start(sessions)
    for number, info in enumerate(sessions, start=1):
        record = await store.export(info.id)
        match form:
            case ExportFormat.JSONL:
                yield to_line(record)
            case ExportFormat.MARKDOWN:
                yield ("\n---\n\n" if number > 1 else "") + to_markdown(outline(record))
            case ExportFormat.HTML:
                section = session_section(outline(record), number, several=several)
                yield "\n".join(section) + "\n"
        progress(number, len(sessions))
    if form is ExportFormat.HTML:
        yield PAGE_END

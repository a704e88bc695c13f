"""Export of sessions as JSON Lines, Markdown or HTML, one session at a time.

Markdown and HTML are written from a `Transcript`, whose texts are plain (see `plain`).
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
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
            yield TextBlock(tuple(_code_lines(rest, opened[1])), opened[1], language)
        else:
            prose.append(line)
    yield TextBlock(tuple(prose))


def _code_lines(rest: Iterator[str], fence: str) -> Iterator[str]:
    for line in rest:
        mark = line.strip()
        if len(mark) >= len(fence) and mark == fence[0] * len(mark):
            return
        yield line


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


class TranscriptTurn(msgspec.Struct, frozen=True):
    """A message of the user and the messages until the next; number 0 is before the first."""

    number: int
    time: float
    entries: tuple[TranscriptEntry, ...]


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
    turns: tuple[TranscriptTurn, ...]


def outline(record: Record) -> Transcript:
    """Return the conversation of an exported session, without undone and compacted messages."""
    rows = conversation_rows(record)
    turns = tuple(_turns(_entries(rows)))
    actual = record.get("actual_cost_usd")
    return Transcript(
        id=plain_line(str(record["id"])),
        name=_name(record, turns),
        source=plain_line(record.get("source") or ""),
        model=plain_line(record.get("model") or ""),
        started_at=record.get("started_at") or 0.0,
        ended_at=record.get("ended_at"),
        end_reason=plain_line(record.get("end_reason") or ""),
        tokens=sum(record.get(f"{kind}_tokens") or 0 for kind in _COUNTED),
        cost_usd=record.get("estimated_cost_usd") if actual is None else actual,
        message_count=len(rows),
        turns=turns,
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


def _name(record: Record, turns: Iterable[TranscriptTurn]) -> str:
    if title := plain_line(record.get("title") or ""):
        return title
    texts = (e.text for turn in turns for e in turn.entries if e.role == "user" and e.text)
    words = " ".join(next(texts, "").split())
    return (words[:63] + "…" if len(words) > 64 else words) or plain_line(str(record["id"]))


def _turns(entries: Iterable[TranscriptEntry]) -> Iterator[TranscriptTurn]:
    number, current = 0, list[TranscriptEntry]()
    for entry in entries:
        if entry.role == "user":
            if current:
                yield TranscriptTurn(number, current[0].time, tuple(current))
            number, current = number + 1, []
        current.append(entry)
    if current:
        yield TranscriptTurn(number, current[0].time, tuple(current))


def _entries(rows: Iterable[Row]) -> Iterator[TranscriptEntry]:
    """Yield the messages, with results moved to their calls. A result without a call is its own."""
    reply: TranscriptEntry | None = None
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
                yield TranscriptEntry("user", time, plain(message.text), images=images)
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
    for turn in transcript.turns:
        if turn.number:
            yield f"## Turn {turn.number}" + (f", {moment(turn.time)}" if turn.time else "")
        speaker = ""
        for entry in turn.entries:
            if entry.role != speaker:
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
    if call.result:
        yield _fenced_text(call.result[:RESULT_LIMIT])
    missing = len(call.result) - RESULT_LIMIT
    if missing > 0:
        yield f"*({missing:,} more characters are not shown)*"


def _fenced_text(text: str) -> str:
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    """Return `text` as code within a line; it may contain backticks."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _message_text(text: str) -> str:
    """Return Markdown to embed: headings below those of the page, HTML tags escaped, and code
    blocks closed."""
    return "\n".join(line for block in blocks(text) for line in _embedded_lines(block))


def _embedded_lines(block: TextBlock) -> Iterator[str]:
    if block.fence:
        yield from (block.fence + block.language, *block.lines, block.fence)
        return
    for line in block.lines:
        heading = HEADING.match(line[:LINE_LIMIT])
        level = "#" * min(len(heading[1]) + 2, 6) if heading else ""
        content = line.lstrip(" ").lstrip("#") if heading else line
        yield level + map_inline(content, "{0}{1}{0}".format, lambda text: _TAG.sub("&lt;", text))


# Sessions as one HTML file without scripts, fonts and links to other sites. Texts of a session are
# always escaped, so that a page is safe to open.
#
# A page is written in pieces, so that a large store need not fit in memory: `page_start` with the
# index, `session_section` for each session, `PAGE_END`.

STYLE = Path(__file__).with_name("transcripts.css")
PAGE_RESULT_LIMIT = 20_000  #: Characters of a tool result that are shown.
BRIEF_LIMIT = 90

# Whatever a page contains, the browser fetches and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")

PAGE_END = "<footer>Exported by Hermes.</footer>\n</body>\n</html>\n"


def page_start(sessions: Sequence[SessionInfo]) -> str:
    """Return the beginning of a page; for several sessions, with a list of them."""
    several = len(sessions) != 1
    title = f"{len(sessions):,} sessions" if several else display_name(sessions[0])
    head = (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text('utf-8')}</style>\n</head>\n"
    )
    if not several:
        return f'{head}<body id="top">\n'
    rows = "\n".join(_index_row(number, info) for number, info in enumerate(sessions, start=1))
    return f'{head}<body id="top">\n<h1>{title}</h1>\n<nav><ol>\n{rows}\n</ol></nav>\n'


def display_name(info: SessionInfo) -> str:
    return plain_line(info.title) or plain_line(info.preview) or plain_line(info.id)


def _index_row(number: int, info: SessionInfo) -> str:
    details = f"{moment(info.started_at)} · {info.source} · {many(info.message_count, 'message')}"
    return (
        f'<li><a href="#session-{number}"><bdi>{escape(display_name(info))}</bdi></a>'
        f"<small>{escape(plain_line(details))}</small></li>"
    )


def session_section(transcript: Transcript, number: int, *, several: bool) -> str:
    """Return one session; `number` is its position in the index."""
    return "\n".join(_section_lines(transcript, number, several=several)) + "\n"


def _section_lines(transcript: Transcript, number: int, *, several: bool) -> Iterator[str]:
    level = "h2" if several else "h1"
    yield f'<article id="session-{number}">'
    yield f"<{level}><bdi>{escape(transcript.name)}</bdi></{level}>"
    shown = (
        f"<div><dt>{label}</dt><dd><bdi>{escape(value)}</bdi></dd></div>"
        for label, value in facts(transcript)
    )
    yield f'<dl class="facts">{"".join(shown)}</dl>'
    for turn in transcript.turns:
        if turn.number:
            yield f"<h3>Turn {turn.number}{_stamp(turn.time)}</h3>"
        for entry in turn.entries:
            yield _html_entry(entry)
    if several:
        yield '<p class="note"><a href="#top">back to the list</a></p>'
    yield "</article>"


def _stamp(time: float) -> str:
    if not time:
        return ""
    exact = local(time).isoformat(timespec="seconds")
    return f' · <time datetime="{exact}">{moment(time)}</time>'


def _html_entry(entry: TranscriptEntry) -> str:
    parts = [f'<p class="who">{escape(entry.role.capitalize())}</p>']
    if entry.reasoning:
        parts.append(
            f"<details><summary>Reasoning</summary><div>{_html_blocks(entry.reasoning)}</div></details>"
        )
    parts.append(_html_blocks(entry.text))
    parts += [_html_image(url) for url in entry.images]
    parts += [_html_call(call) for call in entry.calls]
    return f'<section class="said {escape(entry.role)}">{"".join(parts)}</section>'


def _html_image(url: str) -> str:
    """Return an embedded image; for one that would have to be fetched, its address."""
    if _PICTURE.fullmatch(url):
        return f'<img alt="image of the conversation" src="{escape(url)}">'
    return f'<p class="note">image: <code>{escape(plain_line(url[:300]))}</code></p>'


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
    return "".join(_html_block(block) for block in blocks(text))


def _html_block(block: TextBlock) -> str:
    if block.fence:
        caption = f'<p class="note">{escape(block.language)}</p>' if block.language else ""
        return caption + _preformatted("\n".join(block.lines))
    text = "\n".join(map(_html_line, block.lines)).strip("\n")
    return f'<div class="text" dir="auto">{text}</div>' if text else ""


def _preformatted(text: str) -> str:
    return f'<pre dir="auto">{escape(text)}</pre>'


def _html_line(line: str) -> str:
    heading = HEADING.fullmatch(line) if len(line) <= LINE_LIMIT else None
    if heading:
        return f"<strong>{map_inline(heading[2], _html_code, escape)}</strong>"
    return map_inline(line, _html_code, _html_bold)


def _html_code(_ticks: str, text: str) -> str:
    return f"<code>{escape(text.strip())}</code>"


def _html_bold(text: str) -> str:
    escaped = escape(text)
    return escaped if len(text) > LINE_LIMIT else _BOLD.sub(r"<strong>\1</strong>", escaped)


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
                yield session_section(outline(record), number, several=several)
        progress(number, len(sessions))
    if form is ExportFormat.HTML:
        yield PAGE_END

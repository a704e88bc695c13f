"""Sessions written out of the store, one at a time, so that any number of them fits."""

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
from hermes.store.backend import Progress, ignore_progress
from hermes.store.records import Record
from hermes.store.rows import from_row, row_of
from hermes.store.session_store import SessionStore
from hermes.util.text import escaped_json, many, plain, plain_line

# The little of Markdown that matters when a message is written out: where code is.

LINE_LIMIT = 2000
"""A longer line is nobody's prose and is taken as it is, which also bounds the work."""

HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)[^`]*+")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


class TextBlock(msgspec.Struct, frozen=True):
    """A block of code, or some lines of prose."""

    lines: tuple[str, ...]
    fence: str = ""  #: Empty for prose.
    language: str = ""  #: What stands behind the fence.


def blocks(text: str) -> Iterator[TextBlock]:
    """A block of code that was never closed goes on to the end."""
    said: list[str] = []
    rest = iter(text.strip("\n").split("\n"))
    for line in rest:
        opened = _FENCE.fullmatch(line) if len(line) <= LINE_LIMIT else None
        if opened:
            yield TextBlock(tuple(said))
            said = []
            language = line.strip().removeprefix(opened[1]).strip()
            yield TextBlock(tuple(_inside(rest, opened[1])), opened[1], language)
        else:
            said.append(line)
    yield TextBlock(tuple(said))


def _inside(rest: Iterator[str], fence: str) -> Iterator[str]:
    for line in rest:
        mark = line.strip()
        if len(mark) >= len(fence) and mark == fence[0] * len(mark):
            return
        yield line


def inline(line: str, code: Callable[[str, str], str], other: Callable[[str], str]) -> str:
    """A line with `code(ticks, text)` for each piece of code and `other` for what is between."""
    if len(line) > LINE_LIMIT:
        return other(line)
    parts: list[str] = []
    end = 0
    for found in _CODE.finditer(line):
        parts += [other(line[end : found.start()]), code(found[1], found[2])]
        end = found.end()
    return "".join([*parts, other(line[end:])])


# A stored session as a reader sees it: turns, each with what was said and what tools did.
#
# Both Markdown and HTML are written from this. Text in it is plain (see `plain`).

Row = dict[str, Any]


class TranscriptCall(msgspec.Struct, frozen=True):
    """A tool call and what came of it."""

    id: str
    name: str
    arguments: str
    result: str | None = None  #: None: it never finished.
    failed: bool = False


class TranscriptEntry(msgspec.Struct, frozen=True):
    """One message. The results of a reply's calls are with the reply."""

    role: str
    time: float  #: 0 when it is not known, as for what a compaction or a branch took over.
    text: str = ""
    reasoning: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[TranscriptCall, ...] = ()


class TranscriptTurn(msgspec.Struct, frozen=True):
    """What a user said and everything up to the next time; number 0 is what came before."""

    number: int
    time: float
    entries: tuple[TranscriptEntry, ...]


class Transcript(msgspec.Struct, frozen=True):
    id: str
    name: str  #: The title, or the start of what the user said first.
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
    """The conversation of an exported session: without what was undone or compacted."""
    rows = conversation_rows(record)
    turns = tuple(_turns(_entries(rows)))
    return Transcript(
        id=plain_line(str(record["id"])),
        name=_name(record, turns),
        source=plain_line(record.get("source") or ""),
        model=plain_line(record.get("model") or ""),
        started_at=record.get("started_at") or 0.0,
        ended_at=record.get("ended_at"),
        end_reason=plain_line(record.get("end_reason") or ""),
        tokens=sum(record.get(f"{kind}_tokens") or 0 for kind in _COUNTED),
        cost_usd=_first_known(record.get("actual_cost_usd"), record.get("estimated_cost_usd")),
        message_count=len(rows),
        turns=turns,
    )


_COUNTED = ("input", "output", "cache_read", "cache_write")


def conversation_rows(record: Record) -> list[Row]:
    """The messages that make up the conversation, of all that were logged."""
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
    said = (e.text for turn in turns for e in turn.entries if e.role == "user" and e.text)
    words = " ".join(next(said, "").split())
    return (words[:63] + "…" if len(words) > 64 else words) or plain_line(str(record["id"]))


def _first_known(*costs: float | None) -> float | None:
    return next((cost for cost in costs if cost is not None), None)


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
    """Messages with results moved to their calls. A result nobody asked for stands alone."""
    reply: TranscriptEntry | None = None
    for row in rows:
        message = from_row(row_of(row))
        time = float(row.get("timestamp") or 0.0)
        if isinstance(message, ToolResult):
            answered = reply and _answered(reply, message)
            if answered:
                reply = answered
            else:
                yield TranscriptEntry("tool", time, calls=(_finished(message, ""),))
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


def _answered(reply: TranscriptEntry, result: ToolResult) -> TranscriptEntry | None:
    """The reply with the result at its first open call of that id; None when there is none.

    Ids repeat within a session (some models count from zero in each reply), never within a reply.
    """
    for place, call in enumerate(reply.calls):
        if call.id == result.call_id and call.result is None:
            done = _finished(result, call.arguments)
            calls = (*reply.calls[:place], done, *reply.calls[place + 1 :])
            return msgspec.structs.replace(reply, calls=calls)
    return None


def _finished(result: ToolResult, arguments: str) -> TranscriptCall:
    return TranscriptCall(
        result.call_id, plain_line(result.name), arguments, plain(result.text), result.failed
    )


# How an exported page looks: light and dark, wide and narrow, without any outside help.

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --ink: #1d1c1a; --faint: #6a665f; --line: #dedad2;
  --card: #ffffff; --user: #eaf1fb; --code: #f2f0eb; --accent: #2b5fa8; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17181a; --ink: #e6e4df; --faint: #9b978f; --line: #34363a;
    --card: #1f2124; --user: #1e2b3d; --code: #141517; --accent: #8db7f0; --bad: #f2a19b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 52rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .5rem; }
h3 {
  margin: 2rem 0 .75rem; padding-top: .6rem; border-top: 1px solid var(--line);
  font-size: .85rem; font-weight: 600; color: var(--faint);
}
a { color: var(--accent); }
nav ol { margin: 0 0 1rem; padding: 0; list-style: none; }
nav li { padding: .45rem 0; border-bottom: 1px solid var(--line); }
nav small { display: block; color: var(--faint); }
article { margin-top: 3rem; }
.facts { display: flex; flex-wrap: wrap; gap: .15rem 1.2rem; margin: 0; font-size: .85rem; }
.facts div { display: flex; gap: .35rem; }
.facts dt { color: var(--faint); }
.facts dd { margin: 0; }
.said { margin: .75rem 0; padding: .7rem .9rem; border-radius: .6rem; background: var(--card);
  border: 1px solid var(--line); }
.said.user { background: var(--user); border-color: transparent; }
.who { margin: 0 0 .3rem; font-size: .78rem; font-weight: 600; color: var(--faint); }
.text { white-space: pre-wrap; unicode-bidi: plaintext; }
.text + pre, pre + .text, pre + pre, details + .text, details + pre { margin-top: .6rem; }
.said > :last-child { margin-bottom: 0; }
pre, code { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; background: var(--code); border-radius: .35rem; }
code { padding: .1em .3em; }
pre { margin: 0; padding: .6rem .75rem; max-height: 32rem; overflow: auto; white-space: pre-wrap;
  unicode-bidi: plaintext; }
details { margin-top: .6rem; border: 1px solid var(--line); border-radius: .45rem; }
summary { padding: .35rem .6rem; cursor: pointer; font-size: .875rem; color: var(--faint); }
summary b { color: var(--ink); }
summary .brief { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
details > :not(summary) { margin: 0 .6rem .6rem; }
.bad, .bad b { color: var(--bad); }
.note + pre { margin-top: -.5rem; }
.note { font-size: .8rem; color: var(--faint); }
img { max-width: 100%; height: auto; border-radius: .35rem; display: block; margin-top: .5rem; }
footer { margin-top: 3rem; font-size: .8rem; color: var(--faint); }
@media (max-width: 30rem) {
  body { padding: 1rem .7rem 3rem; }
  .said { padding: .6rem .65rem; }
}
@media print {
  pre { max-height: none; }
  .said, details { break-inside: avoid; }
}
"""


# Text of a conversation as HTML: code blocks, code, bold and headings; the rest stays text.
#
# Nothing of the text is ever taken for HTML, and no address in it becomes a link: a page is safe
# to
# open whatever the conversation holds.

_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")


def prose(text: str) -> str:
    """`text`, which may be Markdown, as HTML blocks."""
    return "".join(_block(block) for block in blocks(text))


def _block(block: TextBlock) -> str:
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
        return f"<strong>{inline(heading[2], _prose_code, escape)}</strong>"
    return inline(line, _prose_code, _bold)


def _prose_code(_ticks: str, text: str) -> str:
    return f"<code>{escape(text.strip())}</code>"


def _bold(text: str) -> str:
    return (
        escape(text) if len(text) > LINE_LIMIT else _BOLD.sub(r"<strong>\1</strong>", escape(text))
    )


# Facts of a session in the words both written forms use.


def moment(timestamp: float) -> str:
    """`2026-01-31 14:05` where the reader is."""
    return local(timestamp).strftime("%Y-%m-%d %H:%M")


def local(timestamp: float) -> datetime:
    """The time of a stored timestamp; the beginning of the count for one that cannot be one."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone()


def cost(dollars: float) -> str:
    """Cents for what costs dollars or nothing, more digits for what is between."""
    return f"${dollars:.4f}" if 0 < dollars < 1 else f"${dollars:,.2f}"


def facts(transcript: Transcript) -> list[tuple[str, str]]:
    """What stands at the head of a session, as (label, value), without what is not known."""
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


# A session as Markdown for people: a heading for each turn, tool calls in a line each.

RESULT_LIMIT = 2000  #: Characters of a tool's result that are kept.
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


def _entry(entry: TranscriptEntry) -> Iterator[str]:
    if entry.reasoning:
        thought = _message_text(entry.reasoning)
        yield f"<details>\n<summary>Reasoning</summary>\n\n{thought}\n\n</details>"
    if entry.text:
        yield _message_text(entry.text)
    for image in entry.images:
        yield f"[image] {_code(plain_line(image[:80]))}" + ("…" if len(image) > 80 else "")
    for call in entry.calls:
        yield from _call(call)


def _call(call: TranscriptCall) -> Iterator[str]:
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


def _message_text(text: str) -> str:
    """`text` as a guest of the page: its headings below those of the page, its tags as text, and
    its code blocks closed."""
    return "\n".join(line for block in blocks(text) for line in _lines(block))


def _lines(block: TextBlock) -> Iterator[str]:
    if block.fence:
        yield from (block.fence + block.language, *block.lines, block.fence)
        return
    for line in block.lines:
        heading = HEADING.match(line[:LINE_LIMIT])
        level = "#" * min(len(heading[1]) + 2, 6) if heading else ""
        content = line.lstrip(" ").lstrip("#") if heading else line
        yield level + inline(content, _limit, _without_tags)


def _limit(ticks: str, text: str) -> str:
    return f"{ticks}{text}{ticks}"


def _without_tags(text: str) -> str:
    return _TAG.sub("&lt;", text)


# Sessions as one HTML file that needs nothing else: no script, no font, no address.
#
# A page is written in pieces, so that a large store never has to fit in memory: `page_start` with
# the index, `session_section` for each session, `PAGE_END`.

PAGE_RESULT_LIMIT = 20_000  #: Characters of a tool's result that are kept.
BRIEF_LIMIT = 90

# Even if something slipped through, the reader's browser fetches and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")

PAGE_END = "<footer>Exported by Hermes.</footer>\n</body>\n</html>\n"


def page_start(sessions: Sequence[SessionInfo]) -> str:
    """Everything before the first session; with several, a list of them."""
    several = len(sessions) != 1
    title = f"{len(sessions):,} sessions" if several else display_name(sessions[0])
    head = (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
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
    """One session; `number` is its place in the index."""
    return "\n".join(_section(transcript, number, several=several)) + "\n"


def _section(transcript: Transcript, number: int, *, several: bool) -> Iterator[str]:
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
            yield _page_entry(entry)
    if several:
        yield '<p class="note"><a href="#top">back to the list</a></p>'
    yield "</article>"


def _stamp(time: float) -> str:
    if not time:
        return ""
    exact = local(time).isoformat(timespec="seconds")
    return f' · <time datetime="{exact}">{moment(time)}</time>'


def _page_entry(entry: TranscriptEntry) -> str:
    parts = [f'<p class="who">{escape(entry.role.capitalize())}</p>']
    if entry.reasoning:
        parts.append(
            f"<details><summary>Reasoning</summary><div>{prose(entry.reasoning)}</div></details>"
        )
    parts.append(prose(entry.text))
    parts += [_image(url) for url in entry.images]
    parts += [_page_call(call) for call in entry.calls]
    return f'<section class="said {escape(entry.role)}">{"".join(parts)}</section>'


def _image(url: str) -> str:
    """A picture the conversation holds; the address of one that would have to be fetched."""
    if _PICTURE.fullmatch(url):
        return f'<img alt="image of the conversation" src="{escape(url)}">'
    return f'<p class="note">image: <code>{escape(plain_line(url[:300]))}</code></p>'


def _page_call(call: TranscriptCall) -> str:
    brief = " ".join(call.arguments.split())
    shown = brief if len(brief) <= BRIEF_LIMIT else brief[:BRIEF_LIMIT] + "…"
    state = ' class="bad"' if call.failed else ""
    inside = [preformatted(call.arguments)] if shown != call.arguments else []
    if call.result is None:
        inside.append('<p class="note">It did not finish.</p>')
    else:
        inside.append(preformatted(call.result[:PAGE_RESULT_LIMIT]))
        missing = len(call.result) - PAGE_RESULT_LIMIT
        if missing > 0:
            inside.append(f'<p class="note">{missing:,} more characters are not shown.</p>')
    return (
        f"<details><summary{state}><b>{escape(call.name)}</b> "
        f'<span class="brief">{escape(shown)}</span></summary>{"".join(inside)}</details>'
    )


class ExportFormat(StrEnum):
    """What an export can be. Only JSON Lines hold everything and can be imported."""

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
    """The form the name of a file asks for; JSON Lines, which lose nothing, for any other name."""
    return SUFFIXES.get(path.suffix.lower(), ExportFormat.JSONL)


def to_line(record: Record) -> str:
    """A whole session as a line of JSON Lines."""
    return escaped_json(msgspec.json.encode(record).decode()) + "\n"


async def export_sessions(
    store: SessionStore,
    sessions: Sequence[SessionInfo],
    form: ExportFormat,
    progress: Progress = ignore_progress,
) -> AsyncIterator[str]:
    """The pieces of the file."""
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

"""A stored session as a reader sees it: turns, each with what was said and what tools did.

Both Markdown and HTML are written from this. Text in it is plain (see `plain`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from hermes.core.messages import Assistant, Image, System, ToolResult, User
from hermes.store.records import Record
from hermes.store.rows import from_row, row_of
from hermes.util.plain import plain, plain_line

Row = dict[str, Any]


class Call(msgspec.Struct, frozen=True):
    """A tool call and what came of it."""

    id: str
    name: str
    arguments: str
    result: str | None = None
    """None: it never finished."""
    failed: bool = False


class Entry(msgspec.Struct, frozen=True):
    """One message. The results of a reply's calls are with the reply."""

    role: str
    time: float
    """0 when it is not known, as for what a compaction or a branch took over."""
    text: str = ""
    reasoning: str = ""
    images: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()


class Turn(msgspec.Struct, frozen=True):
    """What a user said and everything up to the next time; number 0 is what came before."""

    number: int
    time: float
    entries: tuple[Entry, ...]


class Transcript(msgspec.Struct, frozen=True):
    id: str
    name: str
    """The title, or the start of what the user said first."""
    source: str
    model: str
    started_at: float
    ended_at: float | None
    end_reason: str
    tokens: int
    cost_usd: float | None
    message_count: int
    turns: tuple[Turn, ...]


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


def _name(record: Record, turns: Iterable[Turn]) -> str:
    if title := plain_line(record.get("title") or ""):
        return title
    said = (e.text for turn in turns for e in turn.entries if e.role == "user" and e.text)
    words = " ".join(next(said, "").split())
    return (words[:63] + "…" if len(words) > 64 else words) or plain_line(str(record["id"]))


def _first_known(*costs: float | None) -> float | None:
    return next((cost for cost in costs if cost is not None), None)


def _turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    number, current = 0, list[Entry]()
    for entry in entries:
        if entry.role == "user":
            if current:
                yield Turn(number, current[0].time, tuple(current))
            number, current = number + 1, []
        current.append(entry)
    if current:
        yield Turn(number, current[0].time, tuple(current))


def _entries(rows: Iterable[Row]) -> Iterator[Entry]:
    """Messages with results moved to their calls. A result nobody asked for stands alone."""
    reply: Entry | None = None
    for row in rows:
        message = from_row(row_of(row))
        time = float(row.get("timestamp") or 0.0)
        if isinstance(message, ToolResult):
            answered = reply and _answered(reply, message)
            if answered:
                reply = answered
            else:
                yield Entry("tool", time, calls=(_finished(message, ""),))
            continue
        if reply:
            yield reply
            reply = None
        match message:
            case Assistant():
                calls = tuple(
                    Call(call.id, plain_line(call.name), plain(call.arguments))
                    for call in message.calls
                )
                reply = Entry(
                    "assistant", time, plain(message.text), plain(message.thinking), calls=calls
                )
            case User():
                images = tuple(part.url for part in message.parts if isinstance(part, Image))
                yield Entry("user", time, plain(message.text), images=images)
            case System():
                yield Entry("system", time, plain(message.text))
    if reply:
        yield reply


def _answered(reply: Entry, result: ToolResult) -> Entry | None:
    """The reply with the result at its first open call of that id; None when there is none.

    Ids repeat within a session (some models count from zero in each reply), never within a reply.
    """
    for place, call in enumerate(reply.calls):
        if call.id == result.call_id and call.result is None:
            done = _finished(result, call.arguments)
            calls = (*reply.calls[:place], done, *reply.calls[place + 1 :])
            return msgspec.structs.replace(reply, calls=calls)
    return None


def _finished(result: ToolResult, arguments: str) -> Call:
    return Call(
        result.call_id, plain_line(result.name), arguments, plain(result.text), result.failed
    )

"""Where compacted messages are: in the log of the conversation, else in copies of our own."""

import contextlib
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import jsonschema_rs

from hermes.sdk import Message, clean, from_dict, many
from hermes.sdk.context import Dict, Dicts
from hermes_plugins.context.lcm.notes import (
    LcmNotes,
    LogRun,
    NoteNode,
    check_of,
    fingerprint,
    notes_in,
)
from hermes_plugins.context.lcm.writer import files_in, label, message_as_text, tools_in

History = Callable[[], Dicts]

MOST_ALIKE = 200  #: Equal messages of the log that are considered for one of the context.


class ArchivedMessage(NamedTuple):
    """A compacted message. `key` tells it from every other one, however many nodes have it."""

    key: tuple[bool, int]
    message: Message


class MessageArchive:
    """The log as it is now, with copies (`aside`) of messages that are not in it."""

    def __init__(self, history: History | None, aside: Iterable[Message] = ()) -> None:
        self._log: Dicts = history() if history is not None else []
        self.aside = list(aside)

    @cached_property
    def notes(self) -> dict[int, LcmNotes]:
        """The compactions in the log, by position."""
        found = ((position, notes_in(each)) for position, each in enumerate(self._log))
        return {position: notes for position, notes in found if notes is not None}

    @cached_property
    def _prints(self) -> list[bytes]:
        return [fingerprint(from_dict(each)) for each in self._log]

    def nodes(self) -> Iterator[NoteNode]:
        """Yield the nodes of all compactions in the log, oldest first."""
        for notes in self.notes.values():
            yield from notes.nodes

    def find(self, messages: Sequence[Message]) -> list[int | None]:
        """The position of each message of a context in the log; None for one that is not there."""
        positions = [each for each in range(len(self._log)) if each not in self.notes]
        placed = align(
            [fingerprint(message) for message in messages],
            [self._prints[position] for position in positions],
        )
        return [None if place is None else positions[place] for place in placed]

    def keep(
        self, messages: Sequence[Message], positions: Sequence[int | None]
    ) -> tuple[LogRun, ...]:
        """Return the runs of these messages; messages without a position are copied."""
        runs: list[tuple[bool, list[int], list[bytes]]] = []
        for message, position in zip(messages, positions, strict=True):
            aside = position is None
            if position is None:
                position = len(self.aside)
                self.aside.append(message)
            if not runs or runs[-1][0] != aside or runs[-1][1][-1] != position - 1:
                runs.append((aside, [], []))
            runs[-1][1].append(position)
            runs[-1][2].append(fingerprint(message))
        return tuple(
            LogRun(places[0], places[-1], check_of(prints), aside) for aside, places, prints in runs
        )

    def read(self, run: LogRun) -> list[ArchivedMessage] | None:
        """The messages of a run; None when they are nowhere any more."""
        if run.aside:
            copies = self.aside[run.first : run.last + 1]
            if check_of(map(fingerprint, copies)) == run.check:
                return [
                    ArchivedMessage((True, run.first + n), copy) for n, copy in enumerate(copies)
                ]
        start = self._start(run)
        if start is None:
            return None
        found = self._log[start : start + len(run)]
        return [
            ArchivedMessage((False, start + n), from_dict(each)) for n, each in enumerate(found)
        ]

    def _start(self, run: LogRun) -> int | None:
        """Where the run begins: where it says, else wherever the same messages are now. A branch
        of a conversation that went on, say, has them elsewhere."""
        there = self._log[run.first : run.last + 1]
        if not run.aside and check_of(fingerprint(from_dict(m)) for m in there) == run.check:
            return run.first
        for start in range(len(self._log) - len(run) + 1):
            if check_of(self._prints[start : start + len(run)]) == run.check:
                return start
        return None


def align(these: Sequence[bytes], log: Sequence[bytes]) -> list[int | None]:
    """For each of `these` its place in `log`, in order: as many as possible, the latest ones."""
    placed: list[int | None] = [None] * len(these)
    rest, end = len(these), len(log)
    while rest and end and these[rest - 1] == log[end - 1]:
        rest, end = rest - 1, end - 1
        placed[rest] = end
    for index, place in _longest_common(these[:rest], log[:end]):
        placed[index] = place
    return placed


class _Link(NamedTuple):
    number: int
    place: int
    later: "_Link | None"


def _longest_common(these: Sequence[bytes], log: Sequence[bytes]) -> Iterable[tuple[int, int]]:
    """The pairs of a longest common subsequence (Hunt and Szymanski), from the end backwards."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, print_ in enumerate(log):
        places[print_].append(place)
    best: list[int] = []
    """For each length the (negated) place of the earliest pair; the later it is, the better."""
    links: list[_Link] = []
    for index in range(len(these) - 1, -1, -1):
        for place in places.get(these[index], ())[-MOST_ALIKE:]:
            size = bisect_left(best, -place)
            link = _Link(index, place, links[size - 1] if size else None)
            best[size : size + 1], links[size : size + 1] = [-place], [link]
    link_now = links[-1] if links else None
    while link_now is not None:
        yield link_now.number, link_now.place
        link_now = link_now.later


# Search for words or a pattern.

WINDOW = 240  #: Characters of a snippet, and of the pieces a long line is searched in.
OVERLAP = 60
_REGEX_SIGN = re.compile(r"[\\^$*+?{}\[\]|()]")

Search = Callable[[str], str | None]  #: A snippet around what was found in a text, or None.


def search_for(query: str) -> Search:
    """All words of the query, in any order and case. A query with regex signs is looked for as it
    stands and, if it is one, as a pattern for a line."""
    words = clean(query).casefold().split()
    with contextlib.suppress(ValueError):
        if _REGEX_SIGN.search(query):
            pattern = _pattern(clean(query))
            return lambda text: _match_words(text, words) or pattern(clean(text))
    return lambda text: _match_words(text, words)


def _pattern(query: str) -> Search:
    """Return a search by pattern. Raises ValueError for an invalid pattern."""
    # This engine takes linear time whatever the pattern, unlike `re`.
    validator = jsonschema_rs.validator_for(
        {"pattern": f"(?i){query}"}, pattern_options=jsonschema_rs.RegexOptions()
    )
    return lambda text: _match_line(text, validator.is_valid)


def _match_line(text: str, matches: Callable[[str], bool]) -> str | None:
    line = next((line for line in text.splitlines() if matches(line)), None)
    if line is None:
        return None
    starts = range(0, len(line) or 1, WINDOW - OVERLAP)
    pieces = (line[start : start + WINDOW] for start in starts)
    return next((piece for piece in pieces if matches(piece)), line[:WINDOW]).strip()


def _match_words(text: str, words: list[str]) -> str | None:
    folded = text.casefold()
    if not words or not all(word in folded for word in words):
        return None
    at = folded.index(words[0])
    # Folding may change lengths, so the place is only about right; the snippet is wide enough.
    start = max(0, min(at, len(text)) - WINDOW // 3)
    return " ".join(text[start : start + WINDOW].split())


# The three tools that look up compacted messages.

MOST_HITS = 50
MOST_MESSAGES = 100
MOST_IDS = 20
TEASER = 120

_ID = {"type": "string", "description": "as in [lcm:ID ...]"}


def _number(default: int) -> Dict:
    return {"type": "integer", "default": default, "minimum": 0}


def _schema(name: str, description: str, required: str, **properties: Dict) -> Dict:
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": [required]},
    }


SCHEMAS: Dicts = [
    _schema(
        "lcm_grep",
        "Search the messages that were compacted away, for words or a regex.",
        "query",
        query={"type": "string"},
        limit=_number(10),
    ),
    _schema("lcm_describe", "What a note of a compaction covers.", "id", id=_ID),
    _schema(
        "lcm_expand",
        "Show the original messages of a note, or the notes it was made of.",
        "id",
        id=_ID,
        offset=_number(0),
        limit=_number(20),
        from_char={"type": "integer", "default": 0, "description": "in the first message"},
    ),
]


class NoteLookup:
    """Answers from the nodes that are known and the messages they stand for."""

    def __init__(
        self, nodes: Mapping[str, NoteNode], archive: MessageArchive, page_chars: int
    ) -> None:
        self._nodes, self._archive, self._page = nodes, archive, page_chars

    def call(self, name: str, args: Dict) -> str | None:
        """The result of a tool; None when there is none of that name."""
        tools: dict[str, Callable[[Dict], str]] = {
            "lcm_grep": self._grep,
            "lcm_describe": lambda given: self._at(given, self._describe),
            "lcm_expand": lambda given: self._at(given, self._expand),
        }
        return tools[name](args) if name in tools else None

    def _at(self, args: Dict, answer: Callable[[NoteNode, Dict], str]) -> str:
        wanted = str(args.get("id") or "").strip("[] ").removeprefix("lcm:").partition(" ")[0]
        node = self._nodes.get(wanted)
        if node is not None:
            return answer(node, args)
        if not self._nodes:
            return _error("nothing was compacted yet")
        known = ", ".join(list(self._nodes)[-MOST_IDS:])
        return _error(f"there is no note {wanted!r}; the newest are {known}")

    def _grep(self, args: Dict) -> str:
        query = str(args.get("query") or "").strip()
        if not query:
            return _error("say what to look for in query")
        most = _int(args, "limit", 10, least=1, most=MOST_HITS)
        search, seen, hits = search_for(query), set[tuple[bool, int]](), list[str]()
        for node in reversed(list(self._nodes.values())):
            for offset, held in enumerate(self._messages(node)):
                if held is None or held.key in seen:
                    continue
                seen.add(held.key)
                snippet = search(message_as_text(held.message))
                if snippet is not None:
                    hits.append(f"{node.id} offset {offset}, {label(held.message)}: {snippet}")
        if not hits:
            return f"No hits in {many(len(seen), 'compacted message')}. Try fewer words."
        more = [f"[{len(hits) - most} more: narrow the query or raise limit]"]
        return "\n".join([*hits[:most], *(more if len(hits) > most else ())])

    def _describe(self, node: NoteNode, _args: Dict) -> str:
        said = [f"{node.id}: {self._covers(node)}", *self._parents(node)]
        if node.children:
            said += [self._teaser(child) for child in node.children]
        else:
            messages = [held.message for held in self._messages(node) if held is not None]
            roles = Counter(message.role for message in messages)
            said += [
                ", ".join(many(count, f"{role} message") for role, count in roles.items()),
                f"Log: {' '.join(str(run).partition('/')[0] for run in node.runs)}",
                f"Tools: {tools_in(messages) or 'none'}",
                f"Files: {', '.join(files_in(messages)) or 'none'}",
            ]
        return "\n".join([*said, "Notes:", node.text])[: self._page]

    def _expand(self, node: NoteNode, args: Dict) -> str:
        offset = _int(args, "offset", 0)
        most = _int(args, "limit", 20, least=1, most=MOST_MESSAGES)
        if node.children:
            return self._children(node, offset, most)
        messages = list(self._messages(node))
        if offset >= len(messages):
            return _error(f"{node.id} has {len(messages)} messages, the first is offset 0")
        return self._page_of(node, messages, offset, most, _int(args, "from_char", 0))

    def _page_of(
        self,
        node: NoteNode,
        messages: Sequence[ArchivedMessage | None],
        offset: int,
        most: int,
        begin: int,
    ) -> str:
        """Messages from `offset` on, the first one from character `begin`, as far as they fit."""
        pieces: list[str] = []
        room = self._page
        for number in range(offset, min(offset + most, len(messages))):
            text = _text(messages[number])
            if pieces and len(text) > room:
                return _join_page(pieces, node, f"offset={number}")
            piece, end = text[begin : begin + room], begin + room
            start = f", from character {begin}" if begin else ""
            pieces.append(f"--- {number} {_label(messages[number])}{start}\n{piece}")
            if end < len(text):
                return _join_page(pieces, node, f"offset={number}, from_char={end}")
            room, begin = max(0, room - len(piece)), 0
        end = offset + most
        if end < len(messages):
            return _join_page(pieces, node, f"offset={end}")
        return "\n".join([*pieces, f"[end of {node.id}]"])

    def _children(self, node: NoteNode, offset: int, most: int) -> str:
        listed = node.children[offset : offset + most]
        if not listed:
            return _error(f"{node.id} has {len(node.children)} notes, the first is offset 0")
        lines = [self._teaser(child) for child in listed]
        head = f"{node.id} was made of older notes; expand these:"
        if offset + most < len(node.children):
            return _join_page([head, *lines], node, f"offset={offset + most}")
        return "\n".join([head, *lines])

    def _messages(self, node: NoteNode) -> Iterator[ArchivedMessage | None]:
        """Yield the messages of a leaf, None for unreadable ones; an inner node has none."""
        for run in node.runs:
            held = self._archive.read(run)
            yield from [None] * len(run) if held is None else held

    def _covers(self, node: NoteNode) -> str:
        leaves = self._leaves(node.id, set())
        held = [held for leaf in leaves for held in self._messages(leaf)]
        size = sum(len(_text(each)) for each in held)
        parts = f"{many(len(node.children), 'older note')}, " if node.children else ""
        return f"notes on {parts}{many(len(held), 'message')}, {size:,} characters"

    def _leaves(self, node_id: str, seen: set[str]) -> list[NoteNode]:
        node = self._nodes.get(node_id)
        if node is None or node_id in seen:
            return []
        seen.add(node_id)
        if not node.children:
            return [node]
        return [leaf for child in node.children for leaf in self._leaves(child, seen)]

    def _parents(self, node: NoteNode) -> list[str]:
        parents = [each.id for each in self._nodes.values() if node.id in each.children]
        return [f"Part of: {', '.join(parents)}"] if parents else []

    def _teaser(self, node_id: str) -> str:
        node = self._nodes.get(node_id)
        if node is None:
            return f"- {node_id}: not in the log any more"
        words = " ".join(node.text.split())
        cut = f"{words[:TEASER]}…" if len(words) > TEASER else words
        return f"- {node_id} ({self._covers(node)}): {cut}"


def _text(held: ArchivedMessage | None) -> str:
    return message_as_text(held.message) if held is not None else "[not in the log any more]"


def _label(held: ArchivedMessage | None) -> str:
    return label(held.message) if held is not None else "message"


def _join_page(pieces: Sequence[str], node: NoteNode, more: str) -> str:
    return "\n".join([*pieces, f'[more: lcm_expand(id="{node.id}", {more})]'])


def _error(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)


def _int(args: Dict, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
    try:
        number = int(args.get(name, default))
    except (TypeError, ValueError):
        number = default
    number = max(least, number)
    return number if most is None else min(number, most)

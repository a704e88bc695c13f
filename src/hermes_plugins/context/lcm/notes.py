"""The message that stands for what was compacted: its text, and how it is read back.

    [CONTEXT COMPACTION] what this is, in one line

    Todo list: …                                    only when the list itself was compacted away

    ## Constraints & Preferences …                  facts: rules, files and words of the user

    [lcm:3f2a91c0 3-29/1a2b3c 31-40/4d5e6f]         a leaf and its runs of the log
    what happened

    [lcm:9c8d7e6f = 3f2a91c0 77aa88bb]              an inner node and its children
    …

    [lcm:end 5f6a7b]                                check of the text above

    [END OF CONTEXT COMPACTION. …]                  only where no message of the user can follow:
    a message of the user                           its content stands here, as it was

The DAG is stored only there: a new engine reads it from the messages. A message that was changed is
treated as an ordinary message.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes.sdk import TODO_LIST, Assistant, Image, Message, ToolResult, User, clean
from hermes.sdk.context import (
    ACTIVE,
    END,
    IN_USERS,
    INTRO,
    SUMMARY_PREFIX,
    Dict,
    Dicts,
    Summary,
    SummaryNotes,
    add_facts,
    extract_facts,
    is_summary,
    join_request,
    merge_summaries,
    message_text,
    read_summary,
    split_request,
    write_summary,
)

# The nodes of the DAG and their ids.

ID_DIGITS = 8
CHECK_DIGITS = 6

_RUN = re.compile(rf"(~?)(\d+)-(\d+)/([0-9a-f]{{{CHECK_DIGITS}}})")


class LogRun(msgspec.Struct, frozen=True):
    """Neighbouring messages by their positions in the log, the last one included."""

    first: int
    last: int
    check: str  #: Hash of their content, so that no other message is mistaken for one of them.
    aside: bool = False
    """The messages are in no log; positions are those of the engine's own copies."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{'~' if self.aside else ''}{self.first}-{self.last}/{self.check}"

    @classmethod
    def parse(cls, text: str) -> "LogRun | None":
        match = _RUN.fullmatch(text)
        if match is None or int(match[2]) > int(match[3]):
            return None
        return cls(int(match[2]), int(match[3]), match[4], aside=bool(match[1]))


class NoteNode(msgspec.Struct, frozen=True):
    """A note: a leaf has `runs`, an inner node `children`."""

    id: str
    text: str
    runs: tuple[LogRun, ...] = ()
    children: tuple[str, ...] = ()


def fingerprint(message: Message) -> bytes:
    """Return a hash of the content, without thoughts, finish reason and characters that no store
    accepts."""
    parts = map(clean, (message.role, *_essence(message)))
    return hashlib.sha256("\0".join(parts).encode()).digest()[:16]


def _essence(message: Message) -> Iterable[str]:
    if isinstance(message, User):
        return [part.url if isinstance(part, Image) else part.text for part in message.parts]
    if isinstance(message, Assistant):
        calls = (text for call in message.calls for text in (call.id, call.name, call.arguments))
        return (message.text, *calls)
    if isinstance(message, ToolResult):
        return (message.call_id, message.text)
    return (message.text,)


def check_of(prints: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(prints)).hexdigest()[:CHECK_DIGITS]


def leaf_id(prints: Iterable[bytes]) -> str:
    return hashlib.sha256(b"leaf" + b"".join(prints)).hexdigest()[:ID_DIGITS]


def inner_id(children: Sequence[str]) -> str:
    return hashlib.sha256(f"inner {' '.join(children)}".encode()).hexdigest()[:ID_DIGITS]


PREFIX = SUMMARY_PREFIX
OPENING = (
    f"{PREFIX} Notes on earlier messages, for reference; answer only what follows. Nothing is "
    "lost: each note begins with its id, [lcm:ID ...]. lcm_grep(query) finds the original words, "
    "lcm_expand(id) shows the messages, lcm_describe(id) what a note covers."
)

_HEADER = re.compile(r"\[lcm:([0-9a-f]{8}) (= )?([^\]\n]+)\]")
_ID = re.compile(r"[0-9a-f]{8}")
_TODO_LINE = re.compile(r"\[[x> -]\] \S+: .*")
_MISLEADING = re.compile(rf"^(?=\[lcm:|{TODO_LIST}|{re.escape(END)})", re.MULTILINE)
_FACTS = "## "
"""How the facts begin."""


class LcmNotes(msgspec.Struct, frozen=True):
    nodes: tuple[NoteNode, ...]
    todo: str = ""  #: The newest todo list, as its tool shows it.
    opening: str = OPENING
    facts: str = ""  #: The text of `facts_text`, which precedes the nodes.
    request: Any = None  #: The content of a message of the user that is joined to the notes.

    def __str__(self) -> str:
        """Without the request."""
        blocks = (f"{_header(node)}\n{node.text}" for node in self.nodes)
        parts = (self.opening, self.todo, self.facts, *blocks)
        body = "\n\n".join(part for part in parts if part)
        return f"{body}\n\n[lcm:end {check_of([body.encode('utf-8', 'surrogatepass')])}]"

    def message(self, role: str) -> Dict:
        return {**join_request(str(self), self.request), "role": role}


class OpenedConversation(NamedTuple):
    """A conversation without its notes. A request joined to them is a message of its own again."""

    messages: Dicts
    notes: list[LcmNotes]
    head_end: int  #: Where the first notes stood; behind the end when there were none.


def open_conversation(messages: Dicts) -> OpenedConversation:
    rest: Dicts = []
    found: list[LcmNotes] = []
    head_end = len(messages)
    for message in messages:
        notes = notes_in(message)
        if notes is None:
            rest.append(message)
            continue
        head_end = min(head_end, len(rest))
        found.append(notes)
        if notes.request is not None:
            rest.append({"role": "user", "content": notes.request})
    return OpenedConversation(rest, found, head_end)


def escape_text(text: str) -> str:
    """Return `text` for a node, without lines that look like another part of the message."""
    lines = "\n".join(clean(text).strip().splitlines())
    return _MISLEADING.sub(" ", lines).strip("\n") or "(empty)"


def notes_in(message: Dict) -> LcmNotes | None:
    """Return the notes in a message; None for any other message."""
    if not message_text(message).startswith(PREFIX):
        return None
    text, request = split_request(message)
    if request is None and not isinstance(message.get("content"), str):
        return None
    whole = text if request is None else text.removesuffix("\n\n")
    notes = _parse(whole)
    if notes is None or str(notes) != whole:
        return None
    return msgspec.structs.replace(notes, request=request)


def todo_in(text: str) -> str:
    """Return the todo list at the start of `text`, without the lines below it, or ""."""
    if not text.startswith(TODO_LIST):
        return ""
    heading, *lines = text.split("\n")
    listed = []
    for line in lines:
        if not _TODO_LINE.fullmatch(line):
            break
        listed.append(line)
    return "\n".join([heading, *listed])


def _header(node: NoteNode) -> str:
    said = ("=", *node.children) if node.children else node.runs
    return f"[lcm:{node.id} {' '.join(map(str, said))}]"


def _parse(content: str) -> LcmNotes | None:
    blocks = re.split(r"\n\n(?=\[lcm:)", content)
    opening, _, rest = blocks[0].partition("\n\n")
    todo = todo_in(rest)
    facts = rest.removeprefix(todo).removeprefix("\n\n")
    nodes = [_node(*block.partition("\n")) for block in blocks[1:-1]]
    whole = tuple(node for node in nodes if node is not None)
    if not nodes or len(whole) != len(nodes) or (facts and not facts.startswith(_FACTS)):
        return None
    return LcmNotes(whole, todo, opening, facts)


def _node(header: str, _newline: str, text: str) -> NoteNode | None:
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    words = match[3].split(" ")
    if match[2]:
        return NoteNode(match[1], text, children=tuple(words)) if _are_ids(words) else None
    runs = [LogRun.parse(word) for word in words]
    return NoteNode(match[1], text, runs=tuple(run for run in runs if run is not None))


def _are_ids(words: Iterable[str]) -> bool:
    return all(map(_ID.fullmatch, words))


# Facts added to the notes without a model: user messages, rules and files.


def facts_text(
    going: Dicts, before: Iterable[str], room: int, *, pending: str = "", place: str = ""
) -> str:
    """Return the facts of the replaced messages and of earlier notes (`before`), in about `room`
    tokens.

    `pending` is the open request, if it must be repeated. `place` says where the newest message
    of the user is.
    """
    known = [_read(text) for text in before if text]
    known += [read_summary(message) for message in going if is_summary(message)]
    facts = extract_facts(going, merge_summaries(known), room, pending)
    if not facts.tokens:
        return ""
    says_place = place and (facts.users or place != IN_USERS)
    notes = add_facts(SummaryNotes({ACTIVE: place} if says_place else {}), facts)
    written = str(write_summary(Summary(notes, facts.users))["content"])
    return escape_text(written.removeprefix(INTRO))


def _read(text: str) -> Summary:
    return read_summary({"role": "user", "content": f"{INTRO}\n\n{text}"})

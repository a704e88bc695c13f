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

Nothing else holds the DAG: a new engine learns it from the messages alone. A message that somebody
changed or added to is an ordinary message.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from hermes.context.compressor.reading import text_of
from hermes.context.compressor.summary_message import END, SUMMARY_PREFIX, joined, parted
from hermes.context.engine import Dict, Dicts
from hermes.context.lcm.nodes import Node, Run, check_of
from hermes.core.marks import TODO_LIST
from hermes.util.text import clean

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


class Notes(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...]
    todo: str = ""
    """The newest todo list, as its tool shows it."""
    opening: str = OPENING
    facts: str = ""
    """What is said beside the nodes, as `facts.py` writes it."""
    request: Any = None
    """The content of a message of the user that is joined to the notes."""

    def __str__(self) -> str:
        """Without the request."""
        blocks = (f"{_header(node)}\n{node.text}" for node in self.nodes)
        parts = (self.opening, self.todo, self.facts, *blocks)
        body = "\n\n".join(part for part in parts if part)
        return f"{body}\n\n[lcm:end {check_of([body.encode('utf-8', 'surrogatepass')])}]"

    def message(self, role: str) -> Dict:
        return {**joined(str(self), self.request), "role": role}


class Opened(NamedTuple):
    """A conversation without its notes. A request joined to them is a message of its own again."""

    messages: Dicts
    notes: list[Notes]
    head_end: int
    """Where the first notes stood; behind the end when there were none."""


def opened(messages: Dicts) -> Opened:
    rest: Dicts = []
    found: list[Notes] = []
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
    return Opened(rest, found, head_end)


def plain(text: str) -> str:
    """`text` as the text of a node: nothing in it looks like another part of the message."""
    lines = "\n".join(clean(text).strip().splitlines())
    return _MISLEADING.sub(" ", lines).strip("\n") or "(empty)"


def notes_in(message: Dict) -> Notes | None:
    """The notes a message holds; None for every other message."""
    if not text_of(message).startswith(PREFIX):
        return None
    text, request = parted(message)
    if request is None and not isinstance(message.get("content"), str):
        return None
    whole = text if request is None else text.removesuffix("\n\n")
    notes = _parse(whole)
    if notes is None or str(notes) != whole:
        return None
    return msgspec.structs.replace(notes, request=request)


def todo_in(text: str) -> str:
    """The todo list at the start of `text`, without what the tool says below it; or ""."""
    if not text.startswith(TODO_LIST):
        return ""
    heading, *lines = text.split("\n")
    listed = []
    for line in lines:
        if not _TODO_LINE.fullmatch(line):
            break
        listed.append(line)
    return "\n".join([heading, *listed])


def _header(node: Node) -> str:
    said = ("=", *node.children) if node.children else node.runs
    return f"[lcm:{node.id} {' '.join(map(str, said))}]"


def _parse(content: str) -> Notes | None:
    blocks = re.split(r"\n\n(?=\[lcm:)", content)
    opening, _, rest = blocks[0].partition("\n\n")
    todo = todo_in(rest)
    facts = rest.removeprefix(todo).removeprefix("\n\n")
    nodes = [_node(*block.partition("\n")) for block in blocks[1:-1]]
    whole = tuple(node for node in nodes if node is not None)
    if not nodes or len(whole) != len(nodes) or (facts and not facts.startswith(_FACTS)):
        return None
    return Notes(whole, todo, opening, facts)


def _node(header: str, _newline: str, text: str) -> Node | None:
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    words = match[3].split(" ")
    if match[2]:
        return Node(match[1], text, children=tuple(words)) if _are_ids(words) else None
    runs = [Run.parse(word) for word in words]
    return Node(match[1], text, runs=tuple(run for run in runs if run is not None))


def _are_ids(words: Iterable[str]) -> bool:
    return all(map(_ID.fullmatch, words))

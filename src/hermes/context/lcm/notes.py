"""The message that stands for what was compacted: its text, and how it is read back.

    [CONTEXT COMPACTION] what this is, in one line

    Todo list: …                                    only when the list itself was compacted away

    [lcm:3f2a91c0 3-29/1a2b3c 31-40/4d5e6f]         a leaf and its runs of the log
    what happened

    [lcm:9c8d7e6f = 3f2a91c0 77aa88bb]              an inner node and its children
    …

    [lcm:end 5f6a7b]                                check of the text above

Nothing else holds the DAG: a new engine learns it from the messages alone. A message that somebody
changed or added to is an ordinary message.
"""

import re
from collections.abc import Iterable

import msgspec

from hermes.context.engine import Dict
from hermes.context.lcm.nodes import Node, Run, check_of
from hermes.util.text import clean

PREFIX = "[CONTEXT COMPACTION]"
TODO_HEADING = "Todo list: "
"""How the results of the tool `todo` begin."""
OPENING = (
    f"{PREFIX} Notes on earlier messages, for reference; answer only what follows. Nothing is "
    "lost: each note begins with its id, [lcm:ID ...]. lcm_grep(query) finds the original words, "
    "lcm_expand(id) shows the messages, lcm_describe(id) what a note covers."
)

_HEADER = re.compile(r"\[lcm:([0-9a-f]{8}) (= )?([^\]\n]+)\]")
_ID = re.compile(r"[0-9a-f]{8}")
_TODO_LINE = re.compile(r"\[[x> -]\] \S+: .*")
_MISLEADING = re.compile(rf"^(?=\[lcm:|{TODO_HEADING})", re.MULTILINE)


class Notes(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...]
    todo: str = ""
    """The newest todo list, as its tool shows it."""
    opening: str = OPENING

    def __str__(self) -> str:
        blocks = (f"{_header(node)}\n{node.text}" for node in self.nodes)
        body = "\n\n".join(part for part in (self.opening, self.todo, *blocks) if part)
        return f"{body}\n\n[lcm:end {check_of([body.encode('utf-8', 'surrogatepass')])}]"


def plain(text: str) -> str:
    """`text` as the text of a node: nothing in it looks like another part of the message."""
    lines = "\n".join(clean(text).strip().splitlines())
    return _MISLEADING.sub(" ", lines).strip("\n") or "(empty)"


def notes_in(message: Dict) -> Notes | None:
    """The notes a message holds; None for every other message."""
    content = message.get("content")
    if not isinstance(content, str) or not content.startswith(PREFIX):
        return None
    notes = _parse(content)
    return notes if notes is not None and str(notes) == content else None


def todo_in(text: str) -> str:
    """The todo list at the start of `text`, without what the tool says below it; or ""."""
    if not text.startswith(TODO_HEADING):
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
    opening, _, todo = blocks[0].partition("\n\n")
    nodes = [_node(*block.partition("\n")) for block in blocks[1:-1]]
    if not nodes or (todo and todo_in(todo) != todo):
        return None
    whole = tuple(node for node in nodes if node is not None)
    return Notes(whole, todo, opening) if len(whole) == len(nodes) else None


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

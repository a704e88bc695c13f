"""The three tools that lead from the notes back to what was compacted."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from hermes.context.engine import Dict, Dicts
from hermes.context.lcm.archive import Archive, Held
from hermes.context.lcm.extract import files_in, label, shown, tools_in
from hermes.context.lcm.nodes import Node
from hermes.context.lcm.search import search_for
from hermes.util.text import many

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


class Lookup:
    """Answers from the nodes that are known and the messages they stand for."""

    def __init__(self, nodes: Mapping[str, Node], archive: Archive, page_chars: int) -> None:
        self._nodes, self._archive, self._page = nodes, archive, page_chars

    def call(self, name: str, args: Dict) -> str | None:
        """The result of a tool; None when there is none of that name."""
        tools: dict[str, Callable[[Dict], str]] = {
            "lcm_grep": self._grep,
            "lcm_describe": lambda given: self._at(given, self._describe),
            "lcm_expand": lambda given: self._at(given, self._expand),
        }
        return tools[name](args) if name in tools else None

    def _at(self, args: Dict, answer: Callable[[Node, Dict], str]) -> str:
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
                snippet = search(shown(held.message))
                if snippet is not None:
                    hits.append(f"{node.id} offset {offset}, {label(held.message)}: {snippet}")
        if not hits:
            return f"No hits in {many(len(seen), 'compacted message')}. Try fewer words."
        more = [f"[{len(hits) - most} more: narrow the query or raise limit]"]
        return "\n".join([*hits[:most], *(more if len(hits) > most else ())])

    def _describe(self, node: Node, _args: Dict) -> str:
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

    def _expand(self, node: Node, args: Dict) -> str:
        offset = _int(args, "offset", 0)
        most = _int(args, "limit", 20, least=1, most=MOST_MESSAGES)
        if node.children:
            return self._children(node, offset, most)
        messages = list(self._messages(node))
        if offset >= len(messages):
            return _error(f"{node.id} has {len(messages)} messages, the first is offset 0")
        return self._page_of(node, messages, offset, most, _int(args, "from_char", 0))

    def _page_of(
        self, node: Node, messages: Sequence[Held | None], offset: int, most: int, begin: int
    ) -> str:
        """Messages from `offset` on, the first one from character `begin`, as far as they fit."""
        pieces: list[str] = []
        room = self._page
        for number in range(offset, min(offset + most, len(messages))):
            text = _text(messages[number])
            if pieces and len(text) > room:
                return _paged(pieces, node, f"offset={number}")
            piece, end = text[begin : begin + room], begin + room
            start = f", from character {begin}" if begin else ""
            pieces.append(f"--- {number} {_label(messages[number])}{start}\n{piece}")
            if end < len(text):
                return _paged(pieces, node, f"offset={number}, from_char={end}")
            room, begin = max(0, room - len(piece)), 0
        end = offset + most
        if end < len(messages):
            return _paged(pieces, node, f"offset={end}")
        return "\n".join([*pieces, f"[end of {node.id}]"])

    def _children(self, node: Node, offset: int, most: int) -> str:
        listed = node.children[offset : offset + most]
        if not listed:
            return _error(f"{node.id} has {len(node.children)} notes, the first is offset 0")
        lines = [self._teaser(child) for child in listed]
        head = f"{node.id} was made of older notes; expand these:"
        if offset + most < len(node.children):
            return _paged([head, *lines], node, f"offset={offset + most}")
        return "\n".join([head, *lines])

    def _messages(self, node: Node) -> Iterator[Held | None]:
        """Those of a leaf, None for each that cannot be read; an inner node has none itself."""
        for run in node.runs:
            held = self._archive.read(run)
            yield from [None] * len(run) if held is None else held

    def _covers(self, node: Node) -> str:
        leaves = self._leaves(node.id, set())
        held = [held for leaf in leaves for held in self._messages(leaf)]
        size = sum(len(_text(each)) for each in held)
        parts = f"{many(len(node.children), 'older note')}, " if node.children else ""
        return f"notes on {parts}{many(len(held), 'message')}, {size:,} characters"

    def _leaves(self, node_id: str, seen: set[str]) -> list[Node]:
        node = self._nodes.get(node_id)
        if node is None or node_id in seen:
            return []
        seen.add(node_id)
        if not node.children:
            return [node]
        return [leaf for child in node.children for leaf in self._leaves(child, seen)]

    def _parents(self, node: Node) -> list[str]:
        parents = [each.id for each in self._nodes.values() if node.id in each.children]
        return [f"Part of: {', '.join(parents)}"] if parents else []

    def _teaser(self, node_id: str) -> str:
        node = self._nodes.get(node_id)
        if node is None:
            return f"- {node_id}: not in the log any more"
        words = " ".join(node.text.split())
        cut = f"{words[:TEASER]}…" if len(words) > TEASER else words
        return f"- {node_id} ({self._covers(node)}): {cut}"


def _text(held: Held | None) -> str:
    return shown(held.message) if held is not None else "[not in the log any more]"


def _label(held: Held | None) -> str:
    return label(held.message) if held is not None else "message"


def _paged(pieces: Sequence[str], node: Node, more: str) -> str:
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

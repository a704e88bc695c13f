"""The engine: when to compact, what becomes of a conversation, and its tools."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from hermes.context.engine import ContextEngine, Dict, Dicts, Summariser
from hermes.context.lcm.archive import Archive, History
from hermes.context.lcm.bounds import Limits, Plan, Unit, make_plan
from hermes.context.lcm.extract import newest_todo
from hermes.context.lcm.lookup import SCHEMAS, Lookup
from hermes.context.lcm.nodes import Node, fingerprint, inner_id, leaf_id
from hermes.context.lcm.notes import Notes, notes_in
from hermes.context.lcm.options import LcmOptions
from hermes.context.lcm.writing import LEAST_TOKENS, Writer
from hermes.core.messages import Message
from hermes.core.openai_format import from_dict
from hermes.core.tokens import message_tokens, text_tokens
from hermes.util.text import clean

log = logging.getLogger(__name__)

NEW_SHARE = 0.75
"""Part of the budget for notes that those of one compaction may take; the rest is for old ones."""


class LcmEngine(ContextEngine):
    def __init__(self, context_length: int, options: LcmOptions = LcmOptions()) -> None:  # noqa: B008 - frozen
        self.context_length = context_length
        self.threshold_tokens = int(context_length * options.threshold)
        self._options = options
        self._session_id = ""
        self._summarisers: tuple[Summariser, ...] = ()
        self._history: History | None = None
        # Replaced as wholes, never changed: a tool may be called while a compaction runs.
        self._nodes: dict[str, Node] = {}
        self._aside: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        return "lcm"

    def on_session_start(self, session_id: str, **kw: Any) -> None:
        if session_id != self._session_id and not kw.get("parent_session_id"):
            self._forget()
        self._session_id = session_id
        self._summarisers = tuple(kw.get("summarisers") or ())
        self._history = kw.get("history")
        length = kw.get("context_length") or self.context_length
        if length != self.context_length:
            self.update_model(str(kw.get("model") or ""), length)

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._forget()

    def update_from_response(self, usage: dict[str, int]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.last_completion_tokens = usage.get("completion_tokens", 0)
        self.last_total_tokens = usage.get("total_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens > 0

    def get_tool_schemas(self) -> Dicts:
        return SCHEMAS

    def handle_tool_call(self, name: str, args: Dict, **_kw: Any) -> str:
        archive = self._archive()
        lookup = Lookup(self._known(archive), archive, self._options.page_chars)
        result = lookup.call(name, args)
        return result if result is not None else super().handle_tool_call(name, args)

    def get_status(self) -> Dict:
        return {**super().get_status(), "notes": len(self._nodes)}

    def compress(
        self, messages: Dicts, current_tokens: int | None = None, focus_topic: str = ""
    ) -> Dicts:
        """Raises `Interrupted` from a summariser; then nothing has changed."""
        notes = {at: found for at, each in enumerate(messages) if (found := notes_in(each))}
        given = [each for at, each in enumerate(messages) if at not in notes]
        typed = [from_dict(each) for each in given]
        head_end = min(notes, default=len(messages))
        plan = self._plan(typed, head_end)
        if plan is None:
            return list(messages)
        log.debug("compacting %d units, %s tokens reported", len(plan.middle), current_tokens)

        archive = self._archive()
        positions = archive.find(typed)
        writer = Writer(self._summarisers, focus_topic)
        old = [node for each in notes.values() for node in each.nodes]
        new = list(self._leaves(plan, typed, positions, archive, writer))
        noted = next((each.todo for each in reversed(notes.values()) if each.todo), "")
        todo = _todo(plan, typed, noted, head_end)
        made = Notes((*self._condensed(old, new, writer), *new), todo)

        nodes = (*self._known(archive).values(), *old, *made.nodes)
        self._nodes = {node.id: node for node in nodes}
        self._aside = tuple(archive.aside)
        self.summary_model = writer.model
        self.compression_count += 1
        head, tail = (_messages(given, units) for units in (plan.head, plan.tail))
        return [*head, {"role": plan.role, "content": str(made)}, *tail]

    def _forget(self) -> None:
        self._nodes, self._aside = {}, ()

    def _archive(self) -> Archive:
        return Archive(self._history, self._aside)

    def _known(self, archive: Archive) -> dict[str, Node]:
        return {node.id: node for node in (*archive.nodes(), *self._nodes.values())}

    def _plan(self, messages: Sequence[Message], head_end: int) -> Plan | None:
        options = self._options
        limits = Limits(
            tail_tokens=int(self.threshold_tokens * options.target_ratio),
            first=options.protect_first_n,
            last=options.protect_last_n,
        )
        return make_plan(messages, [message_tokens(each) for each in messages], limits, head_end)

    def _leaves(
        self,
        plan: Plan,
        messages: Sequence[Message],
        positions: Sequence[int | None],
        archive: Archive,
        writer: Writer,
    ) -> Iterator[Node]:
        """A node for each stretch of the middle, as long as one note may stand for."""
        budget = int(self._options.notes_budget(self.context_length) * NEW_SHARE)
        total = sum(unit.tokens for unit in plan.middle)
        fewest = total * 2 * LEAST_TOKENS // max(1, budget)
        most = max(fewest, min(self._options.leaf_tokens, writer.room() or total))
        stretches = list(_stretches(plan.middle, most))
        for units in stretches:
            tokens = sum(unit.tokens for unit in units) // 5
            limit = max(LEAST_TOKENS, min(tokens, budget // max(3, len(stretches))))
            span = _messages(messages, units)
            yield Node(
                leaf_id(map(fingerprint, span)),
                writer.leaf(span, limit),
                runs=archive.keep(span, _messages(positions, units)),
            )

    def _condensed(self, old: Sequence[Node], new: Sequence[Node], writer: Writer) -> list[Node]:
        """The old nodes; as many of the oldest as must be become one when all are too long.

        Only one inner node is made at a time, and only of nodes that stand in the log already:
        whatever leaves the context can be read there.
        """
        budget = self._options.notes_budget(self.context_length)
        room = budget - sum(text_tokens(node.text) for node in new)
        sizes = [text_tokens(node.text) for node in old]
        if sum(sizes) <= room or len(old) < 2:
            return list(old)
        limit = max(LEAST_TOKENS, budget // 4)
        count = 2
        while count < len(old) and sum(sizes[count:]) + limit > room:
            count += 1
        limit = max(LEAST_TOKENS, min(limit, sum(sizes[:count]) // 2))
        children = tuple(node.id for node in old[:count])
        text = writer.inner(old[:count], limit)
        return [Node(inner_id(children), text, children=children), *old[count:]]


def _messages(items: Sequence[Any], units: Sequence[Unit]) -> list[Any]:
    return [item for unit in units for item in items[unit.start : unit.stop]]


def _stretches(units: Sequence[Unit], most_tokens: int) -> Iterator[list[Unit]]:
    """Neighbouring units with at most so many tokens together, if a single one has not more."""
    stretch: list[Unit] = []
    for unit in units:
        if stretch and sum(each.tokens for each in stretch) + unit.tokens > most_tokens:
            yield stretch
            stretch = []
        stretch.append(unit)
    if stretch:
        yield stretch


def _todo(plan: Plan, messages: Sequence[Message], noted: str, head_end: int) -> str:
    """The newest todo list, unless the message that shows it stays. `noted` is that of the notes
    before, which stood at `head_end`."""
    index, shown = newest_todo(messages) or (-1, "")
    if noted and index < head_end:
        return noted
    stays = any(unit.start <= index < unit.stop for unit in (*plan.head, *plan.tail))
    return "" if stays else clean(shown)

"""The context engine `lcm`: what is compacted stays in the log and can be looked up again.

In the context, notes stand for what was compacted. Each note is a node of a DAG with an id: a leaf
stands for messages of the log, an inner node for older notes. `lcm_grep`, `lcm_describe` and
`lcm_expand` lead from the notes back to the messages.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hermes.sdk import Message, clean, from_dict, message_tokens, text_tokens
from hermes.sdk.context import (
    AFTER_END,
    IN_TAIL,
    IN_USERS,
    BuiltinEngine,
    CompressionOptions,
    CompressionSizes,
    Dict,
    Dicts,
    SummaryModel,
    compute_sizes,
    latest_request,
    user_text,
)
from hermes_plugins.context.lcm.archive import SCHEMAS, History, MessageArchive, NoteLookup
from hermes_plugins.context.lcm.notes import (
    LcmNotes,
    NoteNode,
    OpenedConversation,
    facts_text,
    fingerprint,
    inner_id,
    leaf_id,
    open_conversation,
)
from hermes_plugins.context.lcm.plan import (
    CompactionPlan,
    MessageUnit,
    PlanLimits,
    contains,
    make_plan,
    of_units,
)
from hermes_plugins.context.lcm.writer import LEAST_TOKENS, NoteWriter, newest_todo


class LcmOptions(CompressionOptions, frozen=True):
    notes_share: float = 0.05  #: Part of the context window that all notes together may take.
    notes_tokens: int = 12_000  #: The same in tokens; the smaller one counts.
    leaf_tokens: int = 20_000
    """Tokens of messages that one note replaces; a longer part gets several notes."""
    page_chars: int = 12_000  #: Characters of one result of a tool.

    def notes_budget(self, context_length: int) -> int:
        return min(int(context_length * self.notes_share), self.notes_tokens)


# Nodes of one compaction: new leaves, and an inner node if there are too many old ones.

NEW_SHARE = 0.75
"""Part of the budget that the notes of one compaction may use; the rest is for old notes."""


class NodeBuilder:
    def __init__(self, writer: NoteWriter, budget: int, leaf_tokens: int) -> None:
        """`budget` is for the texts of all nodes; a leaf stands for at most `leaf_tokens`."""
        self.writer, self._budget, self._leaf_tokens = writer, budget, leaf_tokens

    def leaves(
        self,
        plan: CompactionPlan,
        messages: Sequence[Message],
        positions: Sequence[int | None],
        archive: MessageArchive,
    ) -> Iterator[NoteNode]:
        """Yield a node for each part of the middle that one note can replace."""
        budget = int(self._budget * NEW_SHARE)
        total = sum(unit.tokens for unit in plan.middle)
        fewest = total * 2 * LEAST_TOKENS // max(1, budget)
        most = max(fewest, min(self._leaf_tokens, self.writer.room() or total))
        stretches = list(_stretches(plan.middle, most))
        for units in stretches:
            tokens = sum(unit.tokens for unit in units) // 5
            limit = max(LEAST_TOKENS, min(tokens, budget // max(3, len(stretches))))
            span = of_units(messages, units)
            yield NoteNode(
                leaf_id(map(fingerprint, span)),
                self.writer.leaf(span, limit),
                runs=archive.keep(span, of_units(positions, units)),
            )

    def condensed(self, old: Sequence[NoteNode], new: Sequence[NoteNode]) -> list[NoteNode]:
        """Return the old nodes; if all are too long, the oldest become one inner node.

        Only one inner node is made at a time, and only from nodes that are in the log already, so
        that everything that leaves the context can be read there.
        """
        room = self._budget - sum(text_tokens(node.text) for node in new)
        sizes = [text_tokens(node.text) for node in old]
        if sum(sizes) <= room or len(old) < 2:
            return list(old)
        limit = max(LEAST_TOKENS, self._budget // 4)
        count = 2
        while count < len(old) and sum(sizes[count:]) + limit > room:
            count += 1
        limit = max(LEAST_TOKENS, min(limit, sum(sizes[:count]) // 2))
        children = tuple(node.id for node in old[:count])
        text = self.writer.inner(old[:count], limit)
        return [NoteNode(inner_id(children), text, children=children), *old[count:]]


def _stretches(units: Sequence[MessageUnit], most_tokens: int) -> Iterator[list[MessageUnit]]:
    """Yield neighbouring units with at most `most_tokens` together, or one longer unit."""
    stretch: list[MessageUnit] = []
    for unit in units:
        if stretch and sum(each.tokens for each in stretch) + unit.tokens > most_tokens:
            yield stretch
            stretch = []
        stretch.append(unit)
    if stretch:
        yield stretch


log = logging.getLogger(__name__)


class LcmEngine(BuiltinEngine):
    def __init__(
        self,
        context_length: int,
        compression: CompressionOptions = LcmOptions(),  # noqa: B008 - frozen
    ) -> None:
        options = (
            compression
            if isinstance(compression, LcmOptions)
            else LcmOptions(**msgspec.structs.asdict(compression))
        )
        self.context_length = context_length
        self.threshold_tokens = int(context_length * options.threshold)
        self._options = options
        self._session_id = ""
        self._summarisers: Sequence[SummaryModel] = ()
        self._history: History | None = None
        # Replaced as wholes, never changed: a tool may be called while a compaction runs.
        self._nodes: dict[str, NoteNode] = {}
        self._aside: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        return "lcm"

    def on_session_start(self, session_id: str, **kw: Any) -> None:
        if session_id != self._session_id and not kw.get("parent_session_id"):
            self._forget()
        self._session_id = session_id
        summarisers = kw.get("summarisers")
        self._summarisers = () if summarisers is None else summarisers
        self._history = kw.get("history")
        length = kw.get("context_length") or self.context_length
        if length != self.context_length:
            self.update_model(str(kw.get("model") or ""), length)

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._forget()

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens > 0

    def get_tool_schemas(self) -> Dicts:
        return SCHEMAS

    def handle_tool_call(self, name: str, args: Dict, **_kw: Any) -> str:
        archive = self._archive()
        lookup = NoteLookup(self._known(archive), archive, self._options.page_chars)
        result = lookup.call(name, args)
        return result if result is not None else super().handle_tool_call(name, args)

    def get_status(self) -> Dict:
        return {**super().get_status(), "notes": len(self._nodes)}

    def compress(
        self, messages: Dicts, current_tokens: int | None = None, focus_topic: str = ""
    ) -> Dicts:
        """Raises `Interrupted` from a summariser; then nothing has changed."""
        given = open_conversation(messages)
        typed = [from_dict(each) for each in given.messages]
        request = latest_request(given.messages)
        sizes = compute_sizes(self.context_length, self._options)
        plan = self._plan(typed, given.head_end, request, sizes)
        if plan is None:
            return list(messages)
        log.debug("compacting %d units, %s tokens reported", len(plan.middle), current_tokens)

        archive = self._archive()
        old = [node for each in given.notes for node in each.nodes]
        maker = NodeBuilder(
            NoteWriter(self._summarisers, focus_topic),
            self._options.notes_budget(self.context_length),
            self._options.leaf_tokens,
        )
        new = list(maker.leaves(plan, typed, archive.find(typed), archive))
        made = LcmNotes(
            (*maker.condensed(old, new), *new),
            _todo(plan, typed, given),
            facts=_facts(plan, given, request, sizes.facts),
        )

        nodes = (*self._known(archive).values(), *old, *made.nodes)
        self._nodes = {node.id: node for node in nodes}
        self._aside = tuple(archive.aside)
        self.summary_model = maker.writer.model
        self.compression_count += 1
        return _assemble(plan, given.messages, made)

    def _forget(self) -> None:
        self._nodes, self._aside = {}, ()

    def _archive(self) -> MessageArchive:
        return MessageArchive(self._history, self._aside)

    def _known(self, archive: MessageArchive) -> dict[str, NoteNode]:
        return {node.id: node for node in (*archive.nodes(), *self._nodes.values())}

    def _plan(
        self, messages: Sequence[Message], head_end: int, request: int, sizes: CompressionSizes
    ) -> CompactionPlan | None:
        options = self._options
        limits = PlanLimits(
            tail_tokens=sizes.tail,
            first=options.protect_first_n,
            last=options.protect_last_n,
            request_tokens=sizes.request,
        )
        tokens = [message_tokens(each) for each in messages]
        return make_plan(messages, tokens, limits, head_end, request)


def _assemble(plan: CompactionPlan, given: Dicts, notes: LcmNotes) -> Dicts:
    head, tail = of_units(given, plan.head), of_units(given, plan.tail)
    if plan.joined:
        notes = msgspec.structs.replace(notes, request=tail.pop(0).get("content") or "")
    return [*head, notes.message(plan.role), *tail]


def _facts(plan: CompactionPlan, given: OpenedConversation, request: int, room: int) -> str:
    """`request` is the index of the newest message of the user."""
    pending = ""
    if contains(plan.tail, request):
        place = AFTER_END if plan.joined and plan.tail[0].start == request else IN_TAIL
    else:
        place = IN_USERS
        if contains(plan.head, request):
            pending = user_text(given.messages[request])
    return facts_text(
        of_units(given.messages, plan.middle),
        [notes.facts for notes in given.notes],
        room,
        pending=pending,
        place=place,
    )


def _todo(plan: CompactionPlan, messages: Sequence[Message], given: OpenedConversation) -> str:
    """The newest todo list, unless the message that shows it stays."""
    index, shown = newest_todo(messages) or (-1, "")
    noted = next((notes.todo for notes in reversed(given.notes) if notes.todo), "")
    if noted and index < given.head_end:
        return noted
    return "" if contains((*plan.head, *plan.tail), index) else clean(shown)

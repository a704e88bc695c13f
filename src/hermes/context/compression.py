"""One compaction. Loaded with the first: most conversations never need it."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hermes.context.compressor import CompressionOptions, CompressionSizes
from hermes.context.conversation import (
    cut_to_tokens,
    dict_tokens,
    group_end,
    group_start,
    newest_todo_list,
    tool_calls,
)
from hermes.context.conversation import estimate_messages_tokens_rough as _size
from hermes.context.engine import Dict, Dicts, SummaryModel
from hermes.context.facts import (
    ConversationFacts,
    add_facts,
    extract_facts,
    latest_request,
    user_text,
)
from hermes.context.notes import (
    ACTIVE,
    AFTER_END,
    IN_TAIL,
    IN_USERS,
    Summary,
    SummaryNotes,
    is_summary,
    merge_summaries,
    read_summary,
    write_summary,
)
from hermes.context.pruning import FitCheck, drop_duplicates, prune, repair_calls
from hermes.context.summary import SummaryJob, SummaryResult, extract_notes, summarize

LEAST_TAIL = 3


class Bounds(msgspec.Struct, frozen=True):
    head: int  #: Number of messages kept at the start.
    tail: int  #: Index of the first message kept at the end.
    request: int
    """Index of the last user message, anywhere in the conversation; -1 if there is none."""


def find_bounds(
    messages: Dicts, costs: Sequence[int], sizes: CompressionSizes, options: CompressionOptions
) -> Bounds:
    """Return what to keep. `costs` are the tokens per message; summaries are never kept."""
    summaries = [index for index, message in enumerate(messages) if is_summary(message)]
    request = latest_request(messages)
    head = group_end(messages, min(options.protect_first_n, len(messages)))
    if summaries:
        head = min(head, summaries[0])
    tail = _tail(messages, costs, sizes, options.protect_last_n)
    if 0 <= request < tail and sum(costs[request:]) <= sizes.ceiling:
        tail = request
    tail = max([tail, *(index + 1 for index in summaries)])
    tail = _not_after_user(messages, costs, head, tail, sizes)
    while head > 1 and messages[head - 1]["role"] == "user":
        head -= 1
    return Bounds(head, tail, request)


def _tail(
    messages: Dicts, costs: Sequence[int], sizes: CompressionSizes, protect_last_n: int
) -> int:
    """Return the start of the tail: as the budget allows, or `protect_last_n` small messages."""
    by_count = max(0, len(messages) - max(protect_last_n, LEAST_TAIL))
    start, spent = len(messages), 0
    while start > 0 and spent < sizes.tail and spent + costs[start - 1] <= sizes.ceiling:
        start -= 1
        spent += costs[start]
    if sum(costs[by_count:]) <= sizes.ceiling:
        start = min(start, by_count)
    start = min(start, max(0, len(messages) - LEAST_TAIL))
    begin, end = group_start(messages, start), group_end(messages, start)
    if sum(costs[begin:]) > sizes.ceiling and len(messages) - end >= LEAST_TAIL:
        return end  # the whole group exceeds the budget, and enough is left without it
    return begin


def _not_after_user(
    messages: Dicts, costs: Sequence[int], head: int, tail: int, sizes: CompressionSizes
) -> int:
    """Extend a tail that begins with the user by the assistant's previous messages.

    The summary has the user's role, and two user messages should not follow each other. Only if
    they are small and something is left to summarize.
    """
    if tail >= len(messages) or messages[tail]["role"] != "user" or tail - 1 <= head:
        return tail
    start = group_start(messages, tail - 1)
    small = sum(costs[start:tail]) <= sizes.tail // 2 and sum(costs[head:start]) >= sizes.least
    assistant = messages[start]["role"] == "assistant" and not is_summary(messages[start])
    whole = bool(tool_calls(messages[start])) or start == tail - 1
    return start if start > head and small and assistant and whole else tail


# The layout of a compaction, decided before a model is asked.


class Layout(msgspec.Struct, frozen=True):
    head: Dicts
    earlier: Summary  #: The summary of earlier compactions.
    fresh: Dicts  #: The messages that no notes cover yet.
    going: Dicts  #: The fresh messages that are not repeated.
    facts: ConversationFacts
    todo: str
    joined: Any  #: Content of the user that follows the notes in the same message, or None.
    request: str  #: The newest words of the user where they are not among `fresh`.
    place: str  #: The sentence that says where the newest user message is.
    tail: Dicts

    @property
    def said_and_done(self) -> Dicts:
        """The messages to summarize, including user messages of earlier compactions."""
        return [*({"role": "user", "content": text} for text in self.earlier.users), *self.fresh]

    def build(self, notes: SummaryNotes) -> Dicts:
        """Return the conversation with `notes` in place of the replaced messages."""
        notes = add_facts(notes, self.facts)
        if self.place:
            notes = notes.with_lines(ACTIVE, [self.place])
        summary = Summary(notes, self.facts.users, self.todo, self.joined)
        return [*self.head, write_summary(summary), *self.tail]


def make_layout(small: Dicts, messages: Dicts, bounds: Bounds, sizes: CompressionSizes) -> Layout:
    """Divide a conversation. `small` has the same messages as `messages`, but pruned."""
    earlier, fresh = _split(messages[bounds.head : bounds.tail])
    request = user_text(messages[bounds.request]) if bounds.request >= 0 else ""
    tail, joined, going, place = small[bounds.tail :], list[Dict](), fresh, IN_TAIL
    pending = ""
    if bounds.request < bounds.head:
        pending, place = request, IN_USERS if request else ""
    elif bounds.request < bounds.tail:
        last = max(index for index, each in enumerate(fresh) if user_text(each))
        joined = [_cut_content(fresh[last], sizes.request)]
        going, request, place = [*fresh[:last], *fresh[last + 1 :]], "", AFTER_END
    if tail and tail[0].get("role") == "user":
        place = AFTER_END if bounds.request == bounds.tail else place
        joined, tail = [*joined, tail[0]], tail[1:]
    todo = newest_todo_list(messages)
    return Layout(
        head=small[: bounds.head],
        earlier=earlier,
        fresh=fresh,
        going=going,
        facts=extract_facts(going, earlier, sizes.facts, pending),
        todo=todo.text if bounds.head <= todo.place < bounds.tail else "",
        joined=_content(joined),
        request=request,
        place=place,
        tail=tail,
    )


def _split(messages: Dicts) -> tuple[Summary, Dicts]:
    """Return earlier notes and the rest. A request joined to notes becomes a message again."""
    summaries: list[Summary] = []
    fresh: Dicts = []
    for message in messages:
        if not is_summary(message):
            fresh.append(message)
            continue
        summaries.append(read_summary(message))
        if summaries[-1].request is not None:
            fresh.append({"role": "user", "content": summaries[-1].request})
    return merge_summaries(summaries), fresh


def _cut_content(message: Dict, tokens: int) -> Dict:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": cut_to_tokens(content, tokens)}
    blocks = [
        {**block, "text": cut_to_tokens(block["text"], tokens)}
        if isinstance(block, dict) and isinstance(block.get("text"), str)
        else block
        for block in content or ()
    ]
    return {**message, "content": blocks}


def _content(messages: Dicts) -> Any:
    """Return the concatenated content, or None for no messages."""
    contents = [message.get("content") for message in messages]
    if not contents:
        return None
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "\n\n".join(texts)
    blocks: list[Any] = []
    for content in contents:
        blocks += content if isinstance(content, list) else [{"type": "text", "text": content}]
    return blocks


log = logging.getLogger(__name__)


class CompressionPlan(msgspec.Struct, frozen=True):
    """The input of one compaction, besides the messages."""

    sizes: CompressionSizes
    options: CompressionOptions
    context_length: int
    current_tokens: int | None
    focus: str
    summarisers: Sequence[SummaryModel] | None  #: None during the pause after failures.


class CompressionResult(msgspec.Struct, frozen=True):
    messages: Dicts
    outcome: str  #: `summary`, `extract`, or `pruned` when nothing took the place of messages.
    model: str
    rest: float  #: Seconds for which no model should be asked, after a failure.


def compress(messages: Dicts, plan: CompressionPlan) -> CompressionResult:
    """Prune a conversation, keep its head and tail, and replace the rest by notes."""
    costs, sizes = [dict_tokens(message) for message in messages], plan.sizes
    fit = FitCheck(sum(costs), plan.current_tokens, sizes.fits)
    bounds = find_bounds(messages, costs, sizes, plan.options)
    single = drop_duplicates(messages)
    small = prune(single, bounds.tail)
    made, model, rest = None, "", 0.0
    if bounds.head < bounds.tail:
        layout = make_layout(small, single, bounds, sizes)
        notes, model, rest = _write_notes(layout, plan, lambda: fit(small))
        made = layout.build(notes) if notes else None
    outcome = "summary" if model else "extract"
    if made is None or _size(made) >= _size(small):
        made, model, outcome = small, "", "pruned"
    return CompressionResult(repair_calls(fit.force(made)), outcome, model, rest)


def _write_notes(
    layout: Layout, plan: CompressionPlan, fits: Callable[[], bool]
) -> tuple[SummaryNotes | None, str, float]:
    """Return the notes, the model that wrote them, and the pause after a failure.

    The notes are None if nothing is replaced: the part is too small, or no model answers and the
    pruned conversation fits.
    """
    sizes, size = plan.sizes, _size(layout.going)
    if size < sizes.least:
        return None, "", 0.0
    room = max(sizes.summary - layout.facts.tokens, sizes.summary // 2)
    tokens = min(sizes.summary_of(size), room)
    earlier, going = layout.earlier.notes, layout.said_and_done
    job = SummaryJob(going, earlier, tokens, plan.focus, layout.request, plan.context_length)
    answered, rest = False, 0.0
    if plan.summarisers is not None:
        written = summarize(job, plan.summarisers)
        if isinstance(written, SummaryResult):
            return written.notes, written.model or "unnamed", 0.0
        answered, rest = written.answered, written.rest
        log.warning("no model wrote a summary; none is asked for %d s", rest)
    if not answered and fits():
        return None, "", rest
    return extract_notes(going, earlier, tokens), "", rest

"""One compaction. Loaded with the first: most conversations never need it."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hermes.context.compressor import CompressionOptions, CompressionSizes
from hermes.context.conversation import (
    answered_calls,
    cut_to_tokens,
    describe_call,
    dict_tokens,
    group_end,
    group_start,
    is_result,
    message_text,
    newest_todo_list,
    shorten_json,
    tool_calls,
)
from hermes.context.conversation import estimate_messages_tokens_rough as _size
from hermes.context.engine import Dict, Dicts, SummaryModel
from hermes.context.notes import (
    ACTIVE,
    AFTER_END,
    IN_TAIL,
    IN_USERS,
    ConversationFacts,
    Summary,
    SummaryNotes,
    add_facts,
    extract_facts,
    is_summary,
    latest_request,
    merge_summaries,
    read_summary,
    user_text,
    write_summary,
)
from hermes.context.summary import SummaryJob, SummaryResult, extract_notes, summarize
from hermes.core.messages import ToolCall
from hermes.util.text import cut_middle

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


# Making a conversation smaller without a model: old results and arguments lose their bulk.

RESULT_CHARS = 200  #: Results up to this length are kept.
ARGUMENT_CHARS = 500  #: Arguments up to this length are kept.


def drop_duplicates(messages: Dicts) -> Dicts:
    """Keep only the newest of equal long results; the others become references."""
    calls, seen = answered_calls(messages), set[bytes]()
    kept: Dicts = []
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        text = message_text(message) if is_result(message) else ""
        if len(text) > RESULT_CHARS:
            key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            if key in seen:
                message = _with_line(message, calls.get(index), "[same as later: {}]")
            seen.add(key)
        kept.append(message)
    return kept[::-1]


def prune(messages: Dicts, tail: int) -> Dicts:
    """Shorten results and arguments before index `tail`. Unchanged messages are the same dicts."""
    calls, todo = answered_calls(messages), newest_todo_list(messages).place
    small: Dicts = []
    for index, message in enumerate(messages[:tail]):
        if is_result(message) and index != todo and len(message_text(message)) > RESULT_CHARS:
            small.append(_with_line(message, calls.get(index), "[{}]"))
        else:
            small.append(shorten_arguments(message))
    return [*small, *messages[tail:]]


def _with_line(message: Dict, call: ToolCall | None, form: str) -> Dict:
    name = str(message.get("name") or (call.name if call else "") or "tool")
    line = form.format(describe_call(call, name, message_text(message)))
    return {**message, "content": line}


def shorten_arguments(message: Dict) -> Dict:
    calls = message.get("tool_calls")
    if not calls:
        return message
    short = [_with_short_call(call) for call in calls]
    if all(new is old for new, old in zip(short, calls, strict=True)):
        return message
    return {**message, "tool_calls": short}


def _with_short_call(call: Dict) -> Dict:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or len(arguments) <= ARGUMENT_CHARS:
        return call
    short = shorten_json(arguments)
    if len(short) >= len(arguments):
        return call
    return {**call, "function": {**function, "arguments": short}}


# Check whether a conversation fits, and the last resort if it does not.

LAST_RESORT = (8_000, 3_000, 1_000, 400)
"""Characters to which results are cut, tried in order until the conversation fits."""


class FitCheck:
    """Checks whether a changed conversation fits, given its size before the change."""

    def __init__(self, estimate: int, current_tokens: int | None, limit: int) -> None:
        """`estimate` is for the messages before the change, `current_tokens` the known size of the
        whole request, or None. A request below `limit` fits."""
        self._before, self._limit = estimate, limit
        self._current = estimate if current_tokens is None else current_tokens
        self._factor = min(1.0, self._current / estimate) if estimate else 1.0

    def __call__(self, messages: Dicts) -> bool:
        return self.tokens(messages) < self._limit

    def tokens(self, messages: Dicts) -> int:
        """Return the tokens of the whole request with these messages."""
        saved = self._before - _size(messages)
        return int(self._current - saved * self._factor)

    def force(self, messages: Dicts) -> Dicts:
        """Return `messages`, with tool results cut if they do not fit otherwise."""
        for chars in LAST_RESORT:
            if self(messages):
                return messages
            messages = [
                {**message, "content": cut_middle(message_text(message), chars)}
                if is_result(message) and len(message_text(message)) > 2 * chars
                else message
                for message in messages
            ]
        return messages if self(messages) else [shorten_arguments(each) for each in messages]


# Repair of calls and results after messages were removed.

STUB = "[the result was removed with earlier messages]"


def repair_calls(messages: Dicts) -> Dicts:
    """Give every call exactly one result, in the order of the calls, and drop other results.

    Calls at the end that have no results yet stay open.
    """
    whole: Dicts = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if is_result(message):
            continue  # an orphan: results of a call are handled with it
        whole.append(message)
        if calls := tool_calls(message):
            end = group_end(messages, index)
            if end == index == len(messages):
                break
            results: dict[str, Dicts] = {}
            for result in messages[index:end]:
                results.setdefault(str(result.get("tool_call_id") or ""), []).append(result)
            for call in calls:
                stub = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": STUB}
                given = results.get(call.id)
                whole.append(given.pop(0) if given else stub)
            index = end
    return whole


# The whole compaction.

log = logging.getLogger(__name__)


NEAR_THRESHOLD = 0.85
WORTHWHILE = 0.20  #: Part of the threshold that notes should free.
TAILS = (1.0, 0.5, 0.25)  #: Parts of the tail's budget, tried until notes are worthwhile.


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
    replaced: bool  #: False when messages were only pruned.
    model: str  #: The model that wrote the notes; empty if none did.
    rest: float  #: Seconds for which no model should be asked, after a failure.


def compress(messages: Dicts, plan: CompressionPlan) -> CompressionResult:
    """Prune a conversation, keep its head and tail, and replace the rest by notes."""
    costs = [dict_tokens(message) for message in messages]
    fit = FitCheck(sum(costs), plan.current_tokens, plan.sizes.fits)
    single = drop_duplicates(messages)
    is_near = fit.tokens(messages) >= NEAR_THRESHOLD * plan.sizes.threshold
    whole_tail = small = single
    layout, is_worthwhile = None, False
    for share in TAILS if is_near else TAILS[:1]:
        sizes = msgspec.structs.replace(plan.sizes, tail=int(plan.sizes.tail * share))
        last = plan.options.protect_last_n if share == 1 else LEAST_TAIL
        options = msgspec.structs.replace(plan.options, protect_last_n=last)
        bounds = find_bounds(messages, costs, sizes, options)
        small = prune(single, bounds.tail)
        whole_tail = small if share == 1 else whole_tail
        if bounds.head >= bounds.tail:
            continue
        layout = make_layout(small, single, bounds, sizes)
        freed = _size(layout.going) - sizes.summary_of(_size(layout.going)) - layout.facts.tokens
        is_worthwhile = freed >= WORTHWHILE * sizes.threshold
        if is_worthwhile:
            break
    made, model, rest = None, "", 0.0
    # Near the threshold, notes that free little would have to be written again soon.
    if is_near and not is_worthwhile and not plan.focus and fit(whole_tail):
        small = whole_tail
    elif layout is not None:
        notes, model, rest = _write_notes(layout, plan, lambda: fit(small))
        made = layout.build(notes) if notes else None
    replaced = made is not None and _size(made) < _size(small)
    if made is None or not replaced:
        made, model = small, ""
    return CompressionResult(repair_calls(fit.force(made)), replaced, model, rest)


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
    earlier = layout.earlier.notes
    # With the user messages of earlier compactions.
    said = [{"role": "user", "content": text} for text in layout.earlier.users]
    going = [*said, *layout.fresh]
    task = next(filter(None, map(user_text, layout.head)), "")
    job = SummaryJob(going, earlier, tokens, plan.focus, layout.request, plan.context_length, task)
    answered, rest = False, 0.0
    if plan.summarisers is not None:
        written = summarize(job, plan.summarisers)
        if isinstance(written, SummaryResult):
            return written.notes, written.model or "unnamed", 0.0
        answered, rest = written.answered, written.rest
        log.warning("no model wrote a summary; none is asked for %d s", rest)
    if not answered and fits():
        return None, "", rest
    return extract_notes(going, earlier, tokens, task), "", rest

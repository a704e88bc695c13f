"""One compaction. Loaded with the first: most conversations never need it."""

import logging
from collections.abc import Callable, Sequence

import msgspec

from hermes.context.compressor.assemble import repaired
from hermes.context.compressor.bounds import find_bounds
from hermes.context.compressor.extract import extract
from hermes.context.compressor.fitting import Fit
from hermes.context.compressor.layout import Layout, lay_out
from hermes.context.compressor.notes import Notes
from hermes.context.compressor.options import CompressionOptions, Sizes
from hermes.context.compressor.prune import pruned, without_duplicates
from hermes.context.compressor.summary import Failed, Job, Written, summarise
from hermes.context.engine import Dicts, Summariser
from hermes.context.rough import dict_tokens
from hermes.context.rough import estimate_messages_tokens_rough as _size

log = logging.getLogger(__name__)


class Task(msgspec.Struct, frozen=True):
    """What is known before a conversation is compacted."""

    sizes: Sizes
    options: CompressionOptions
    context_length: int
    current_tokens: int | None
    focus: str
    summarisers: Sequence[Summariser] | None
    """None while models are left alone."""


class Made(msgspec.Struct, frozen=True):
    messages: Dicts
    outcome: str
    """`summary`, `extract`, or `pruned` when nothing took the place of messages."""
    model: str
    rest: float
    """Seconds for which no model should be asked."""


class Shortening:
    """The conversation pruned, its head and tail kept, and notes in the place of the rest."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._rest = 0.0

    def made_of(self, messages: Dicts) -> Made:
        task, costs = self._task, [dict_tokens(message) for message in messages]
        sizes = task.sizes
        fit = Fit(sum(costs), task.current_tokens, sizes.fits)
        bounds = find_bounds(messages, costs, sizes, task.options)
        single = without_duplicates(messages)
        small = pruned(single, bounds.tail)
        made, model = None, ""
        if bounds.head < bounds.tail:
            layout = lay_out(small, single, bounds, sizes)
            notes, model = self._notes(layout, lambda: fit(small))
            made = layout.built(notes) if notes else None
        outcome = "summary" if model else "extract"
        if made is None or _size(made) >= _size(small):
            made, model, outcome = small, "", "pruned"
        return Made(repaired(fit.forced(made)), outcome, model, self._rest)

    def _notes(self, layout: Layout, fits: Callable[[], bool]) -> tuple[Notes | None, str]:
        """The notes for what goes and who wrote them; None when nothing is to go: there is too
        little of it, or no model answers and the pruned conversation fits."""
        sizes, size = self._task.sizes, _size(layout.going)
        if size < sizes.least:
            return None, ""
        room = max(sizes.summary - layout.facts.tokens, sizes.summary // 2)
        tokens = min(sizes.summary_of(size), room)
        earlier, going = layout.earlier.notes, layout.said_and_done
        task = self._task
        job = Job(going, earlier, tokens, task.focus, layout.request, task.context_length)
        written = self._ask(job)
        if isinstance(written, Written):
            return written.notes, written.model or "unnamed"
        if not written.answered and fits():
            return None, ""
        return extract(going, earlier, tokens), ""

    def _ask(self, job: Job) -> Written | Failed:
        """A failure sends the models to rest; while they rest none is asked."""
        if self._task.summarisers is None:
            return Failed(answered=False, lasting=False)
        written = summarise(job, self._task.summarisers)
        if isinstance(written, Failed):
            self._rest = written.rest
            log.warning("no model wrote a summary; none is asked for %d s", written.rest)
        return written

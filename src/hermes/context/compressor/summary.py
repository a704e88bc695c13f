"""Getting notes from a model: one after the other is asked until one gives something usable."""

import logging
from collections.abc import Sequence

import msgspec

from hermes.context.compressor.check import Unusable, checked
from hermes.context.compressor.extract import extract
from hermes.context.compressor.findings import with_findings
from hermes.context.compressor.notes import Notes
from hermes.context.compressor.summary_prompt import INSTRUCTIONS, Question
from hermes.context.compressor.transcript import parts_of
from hermes.context.engine import Dicts, Summariser
from hermes.core.errors import (
    ConfigError,
    ContextOverflow,
    CredentialMissing,
    CredentialRefused,
    ProviderError,
    QuotaSpent,
)
from hermes.core.tokens import text_tokens

log = logging.getLogger(__name__)

TRIES = 2
"""For each question to a model that answers, but not usably."""
MOST_PARTS = 10
"""Questions for one summary; what is older than these hold is listed instead."""
SMALLER_WINDOWS = 3
"""How often a model is tried with half the window it claims to have."""
FIXED = text_tokens(INSTRUCTIONS) + 200
"""Tokens of a question beside what it is about."""
LEAST_ROOM = 300
"""Tokens of transcript that make a question worth asking."""
FINDINGS = 8
"""One part in so many is for values of the notes so far that the model left out."""
LASTING = (CredentialMissing, CredentialRefused, QuotaSpent, ConfigError)
"""Failures that a minute does not mend."""


class Job(msgspec.Struct, frozen=True):
    messages: Dicts
    earlier: Notes
    tokens: int
    """The most the notes may have."""
    focus: str
    request: str
    """The user's newest words, where `messages` are without them."""
    window: int
    """For a model that does not say how much it takes."""


class Written(msgspec.Struct, frozen=True):
    notes: Notes
    model: str


class Failed(msgspec.Struct, frozen=True):
    answered: bool
    """A model answered, but nothing usable came."""
    lasting: bool
    """Asking again soon will not help."""

    @property
    def rest(self) -> float:
        """Seconds until models are asked again."""
        return 600.0 if self.lasting else 60.0


def summarise(job: Job, summarisers: Sequence[Summariser]) -> Written | Failed:
    """`Interrupted` goes through."""
    answered, lasting = False, True
    for summariser in summarisers:
        try:
            return _by(summariser, job)
        except Unusable as error:
            answered, lasting = True, False
            log.warning("a summary was not usable: %s", error)
        except (ProviderError, ConfigError) as error:
            lasting = lasting and isinstance(error, LASTING)
            log.warning("a summary failed: %s", error)
    return Failed(answered, lasting)


def _by(summariser: Summariser, job: Job) -> Written:
    window = summariser.context_length or job.window
    for _ in range(SMALLER_WINDOWS - 1):
        try:
            return _in_window(summariser, job, window)
        except ContextOverflow as error:
            log.info("the summary model takes less than %d tokens: %s", window, error)
            window //= 2
    return _in_window(summariser, job, window)


def _in_window(summariser: Summariser, job: Job, window: int) -> Written:
    """Notes on the first part, brought up to date with each further one."""
    tokens = min(job.tokens, window // 5)
    answer = min(2 * tokens, window // 4)  # room to think; what is too long is cut
    notes = job.earlier.fitted(window // 5)
    used = answer + FIXED + text_tokens(job.request[:1_000]) + text_tokens(job.focus)
    room = window - used - max(tokens, text_tokens(notes.text()))
    if room < LEAST_ROOM:
        raise ContextOverflow(f"a window of {window} tokens is too small for a summary")
    parts = parts_of(job.messages, room, tokens)
    if old := [message for part in parts[:-MOST_PARTS] for message in part.messages]:
        notes = extract(old, notes, tokens)
    model = ""
    for part in parts[-MOST_PARTS:]:
        asked = Question(part.text, notes, tokens, job.focus, job.request)
        new, model = _ask(summariser, asked, answer)
        notes = with_findings(new, notes, tokens // FINDINGS).fitted(tokens)
    return Written(notes, model)


def _ask(summariser: Summariser, asked: Question, most: int) -> tuple[Notes, str]:
    """The notes and who wrote them, from a reply of at most `most` tokens."""
    why = ""
    for _ in range(TRIES):
        reply = summariser.ask(asked.messages(why), most)
        try:
            return checked(reply.text, asked.tokens), reply.model
        except Unusable as error:
            why = str(error)
    raise Unusable(why)

"""Events in words, the same on every kind of terminal."""

from hermes.core.events import (
    Compacted,
    CompactionStarted,
    Event,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    TurnFinished,
)
from hermes.core.model import FellBack, Retrying
from hermes.core.ports import Consent
from hermes.util.text import many

EARLY_ENDS = {
    "max_iterations": "stopped: the step limit of this turn was reached; --max-turns raises it",
    "iteration_budget": "stopped: the turn and its subagents used up their steps; --max-turns "
    "raises them",
    "repeating": "stopped: calls failed again and again",
    "truncated": "the reply was cut at the model's output limit",
    "empty": "the model gave no answer; ask again, or choose another model",
}
"""What a turn that ended without an error, but early, is called."""

CONSENTS = {
    Consent.ONCE: "allowed once",
    Consent.SESSION: "allowed in this session",
    Consent.ALWAYS: "allowed for good",
    Consent.DENY: "not allowed",
}


def progress_lines(event: Event) -> list[str]:
    """What happens beside text and tools; nothing of most events."""
    match event:
        case CompactionStarted():
            return [f"compacting the conversation ({event.tokens:,} tokens) …"]
        case Compacted():
            before, after = f"{event.tokens_before:,}", f"{event.tokens_after:,}"
            return [f"compacted: {before} to {after} tokens, now session {event.session_id}"]
        case SubagentStarted():
            return [f"  [{event.child + 1}] {event.goal}"]
        case SubagentProgress():
            return [f"  [{event.child + 1}] {event.text}"]
        case SubagentFinished():
            calls = f"{many(event.api_calls, 'model call')}, {event.seconds:.1f} s"
            return [f"  [{event.child + 1}] {event.status} ({calls})"]
        case _:
            return []


def trouble_line(event: Retrying | FellBack) -> str:
    """A model call that failed, and what comes next."""
    if isinstance(event, Retrying):
        return f"{event.error}; trying again in {event.seconds:.0f} s"
    return f"{event.error}; {event.model} on {event.provider} takes over"


def problem_lines(end: TurnFinished) -> list[str]:
    """What went wrong in a turn, if anything, and what to do about it."""
    if end.exit_reason in EARLY_ENDS:
        return [f"({EARLY_ENDS[end.exit_reason]})"]
    if not end.error:
        return []
    return [f"hermes: {end.error}"] + ([f"  {end.hint}"] if end.hint else [])


def consent_text(answer: str) -> str:
    """How a question for consent was answered."""
    try:
        return CONSENTS[Consent(answer)]
    except ValueError:
        return answer

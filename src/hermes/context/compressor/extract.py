"""Notes made without a model: a list of what was said and done."""

from collections.abc import Iterator

from hermes.context.compressor.notes import ACTIONS, ACTIVE, CRITICAL, GOAL, Notes
from hermes.context.compressor.outcomes import described, failure, subject
from hermes.context.compressor.reading import (
    answered_calls,
    cut_to,
    is_result,
    one_line,
    text_of,
)
from hermes.context.compressor.user_words import words_of
from hermes.context.engine import Dicts

UNWRITTEN = "- No model wrote these notes: they list what happened, without what was learnt."
MOST_ERRORS = 10
REQUEST_TOKENS, LAST_WORDS_TOKENS = 150, 300
SAID_CHARS = 200


def extract(messages: Dicts, earlier: Notes, tokens: int) -> Notes:
    """The earlier notes, gone on with: the request, the calls made, what failed, and the last
    words of the assistant, in at most so many tokens."""
    said = list(filter(None, map(words_of, messages)))
    notes = earlier
    if said:
        notes = notes.with_section(ACTIVE, _quoted(said[-1]))
        if not notes[GOAL]:
            notes = notes.with_section(GOAL, _quoted(said[0]))
    notes = notes.with_lines(ACTIONS, _counted(_actions(messages)))
    critical = [UNWRITTEN, *_errors(messages), *_last_words(messages)]
    return notes.with_lines(CRITICAL, critical).fitted(tokens)


def _quoted(text: str) -> str:
    return f"“{' '.join(cut_to(text, REQUEST_TOKENS).split())}”"


def _actions(messages: Dicts) -> Iterator[str]:
    calls = answered_calls(messages)
    for index, message in enumerate(messages):
        text = text_of(message).strip()
        if is_result(message):
            call = calls.get(index)
            name = str(message.get("name") or (call.name if call else "") or "tool")
            yield described(call, name, text)
        elif message.get("role") == "assistant" and text:
            yield f"said: {one_line(text, SAID_CHARS)}"


def _counted(lines: Iterator[str]) -> list[str]:
    """As list items; what happened several times in a row is one."""
    runs: list[tuple[str, int]] = []
    for line in lines:
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    return [f"- {line}{f' ({count} times)' if count > 1 else ''}" for line, count in runs]


def _errors(messages: Dicts) -> list[str]:
    calls = answered_calls(messages)
    found: dict[str, None] = {}
    for index, message in enumerate(messages):
        problem = failure(text_of(message)) if is_result(message) else ""
        call = calls.get(index)
        if problem and call:
            line = f"- {call.name} {subject(call)}: {problem}"
            found.pop(line, None)
            found[line] = None
    return list(found)[-MOST_ERRORS:]


def _last_words(messages: Dicts) -> list[str]:
    for message in reversed(messages):
        text = text_of(message).strip()
        if message.get("role") == "assistant" and text:
            words = " ".join(cut_to(text, LAST_WORDS_TOKENS).split())
            return [f"- Last words of the assistant: {words}"]
    return []

"""What is put into every summary whatever a model wrote: words of the user, rules, files."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from hermes.context.compressor.files import files_of, marked_in, with_marks
from hermes.context.compressor.notes import CONSTRAINTS, FILES, Notes
from hermes.context.compressor.reading import cut_to
from hermes.context.compressor.summary_message import Summary
from hermes.context.compressor.user_words import SMALL_TALK, rules_in, words_of
from hermes.context.engine import Dicts
from hermes.core.tokens import text_tokens

FILES_SHARE, RULES_SHARE = 0.3, 0.3
"""Of the room for facts; the words of the user have the rest."""
MOST_FILES = 100
MOST_OF_ONE = 700
"""Tokens of one message of the user; of a longer one head and tail are kept."""
SAME = 100
"""Characters at the start by which a message is known again."""
AROUND = 8
"""Tokens of the marks around it."""

_QUOTED = re.compile("“([^“”]+)”")
_QUOTES = re.compile("[“”]")


class Facts(msgspec.Struct, frozen=True):
    users: tuple[str, ...]
    """Messages of the user, oldest first; a very long one with a gap."""
    rules: tuple[str, ...]
    """Sentences of messages that are not among `users`, and rules of earlier notes."""
    files: tuple[str, ...]

    @property
    def tokens(self) -> int:
        users = sum(text_tokens(text) + AROUND for text in self.users)
        lines = sum(text_tokens(f"- `{line}`\n") for line in (*self.rules, *self.files))
        return users + lines


def facts_of(messages: Dicts, earlier: Summary, room: int, pending: str = "") -> Facts:
    """`messages` are those that go, `pending` what the user waits for if that is kept elsewhere
    and still to be repeated; `room` is in tokens."""
    before = marked_in(earlier.notes[FILES], all_of_them=earlier.foreign)
    files = _within(files_of(messages, before), room * FILES_SHARE)
    # Earlier notes may have what is pending in a shorter form.
    before_it = [text for text in earlier.users if text[:SAME] != pending[:SAME]]
    said = [*before_it, *map(words_of, messages), pending]
    said = [text for text in dict.fromkeys(said) if text]
    left = room - sum(text_tokens(f"- `{path}`\n") for path in files)
    users, whole = _newest(said, pending, int(left * (1 - RULES_SHARE)))
    rules = _rules_before(earlier)
    rules += [
        _QUOTES.sub('"', rule) for text in said if text not in whole for rule in rules_in(text)
    ]
    left -= sum(text_tokens(text) + AROUND for text in users)
    newest_first = _within(dict.fromkeys(reversed(rules)), left)
    return Facts(tuple(users), tuple(reversed(newest_first)), tuple(files[:MOST_FILES]))


def _newest(said: Sequence[str], pending: str, room: int) -> tuple[list[str], set[str]]:
    """The newest messages that have room, without small talk; and which of them are whole."""
    kept: list[str] = []
    whole: set[str] = set()
    for text in reversed(said):
        if text != pending and len(text) < SMALL_TALK and not rules_in(text):
            whole.add(text)  # nothing in it to keep
            continue
        shown = cut_to(text, min(MOST_OF_ONE, max(60, room - AROUND)))
        room -= text_tokens(shown) + AROUND
        if room < 0 and kept:
            break
        kept.append(shown)
        whole.update([text] if shown == text else [])
    return kept[::-1], whole


def _within(lines: Iterable[str], room: float) -> list[str]:
    kept = []
    for line in lines:
        room -= text_tokens(f"- `{line}`\n")
        if room < 0:
            break
        kept.append(line)
    return kept


def with_facts(notes: Notes, facts: Facts) -> Notes:
    """What a section does not say already is added to it. Rules are quoted and files marked, so
    that they are known again next time."""
    text = _QUOTES.sub("", notes[CONSTRAINTS])
    missing = []
    for rule in facts.rules:
        quoted = f"“{rule}”"
        if rule in text:
            text = text.replace(rule, quoted, 1)
        else:
            missing.append(f"- {quoted}")
    notes = notes.with_section(CONSTRAINTS, text).with_lines(CONSTRAINTS, missing)
    return notes.with_section(FILES, with_marks(notes[FILES], facts.files))


def _rules_before(earlier: Summary) -> list[str]:
    section = earlier.notes[CONSTRAINTS]
    if earlier.foreign:
        return [line.lstrip("-* ") for line in section.splitlines()]
    return _QUOTED.findall(section)

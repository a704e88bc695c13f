"""What is put into every summary whatever a model wrote: words of the user, rules, files."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from hermes.context.conversation import (
    PATH_KEYS,
    call_arguments,
    cut_to_tokens,
    message_text,
    tool_calls,
)
from hermes.context.engine import Dict, Dicts
from hermes.context.notes import CONSTRAINTS, FILES, Summary, SummaryNotes, is_summary, read_summary
from hermes.core.messages import NOT_THE_USER, STEERED, ToolCall
from hermes.core.model import text_tokens

# The user's own messages, as opposed to messages in the user's role that a program wrote.

SMALL_TALK = 40  #: Characters up to which a message is most likely no request, such as "ok, go on".


def user_text(message: Dict) -> str:
    """Return the user's own text in a message; "" for messages that a program wrote."""
    if message.get("role") != "user":
        return ""
    if is_summary(message):
        request = read_summary(message).request
        return "" if request is None else user_text({"role": "user", "content": request})
    text = message_text(message).strip()
    if STEERED in text:
        return text.partition(STEERED)[2].strip()
    return "" if text.startswith(NOT_THE_USER) else text


def latest_request(messages: Dicts) -> int:
    """Return the index of the last message with text of the user, or -1."""
    for index in range(len(messages) - 1, -1, -1):
        if user_text(messages[index]):
            return index
    return -1


_STRONG = re.compile(
    r"\b(?:always|never|must(?:n't)?|do(?:n't| not)|cannot|can't|only|avoid|without|forbidden|"
    r"not allowed|under no|at (?:most|least)|no more than|at all times|"
    r"immer|nie(?:mals)?|darf|dürfen|muss|nur|kein\w*|siempre|nunca|debe|solo|toujours|jamais|"
    r"doit|seulement)\b|不要|必须|不能|只能|总是|绝不",
    re.I,
)
_WEAK = re.compile(
    r"\b(?:use|using|prefer\w*|should(?:n't)?|keep|ensure|make sure|instead|rather|require[ds]?|"
    r"important|remember|stay|stick|leave|not|no|nothing|until|before|every|each|limit|format|"
    r"bitte|nicht|please)\b|请|使用",
    re.I,
)
_SENTENCE = re.compile(r"[^\s].*?(?:[.!?。！？](?=\s|$|[^\x00-\x7f])|\n|$)")
MOST_CHARS = 300  #: Of one sentence.
MAX_RULES_PER_MESSAGE = 12  #: Rules taken from one message: a long paste is not a list of rules.


def find_rules(text: str) -> list[str]:
    """Return the sentences that state rules or preferences, in order; if there are many, the
    clearest ones."""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(text)]
    ranked = [
        (0 if _STRONG.search(sentence) else 1, index)
        for index, sentence in enumerate(sentences)
        if len(sentence) >= 8 and (_STRONG.search(sentence) or _WEAK.search(sentence))
    ]
    chosen = sorted(index for _, index in sorted(ranked)[:MAX_RULES_PER_MESSAGE])
    return [_cut(sentences[index]) for index in chosen]


def _cut(sentence: str) -> str:
    line = " ".join(sentence.split())
    return line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…"


# Files that a conversation touched.

BULK_KEYS = frozenset({"content", "old_string", "new_string", "data", "todos"})
"""Arguments with file content: paths in it were not touched."""
WRITERS = frozenset({"write_file", "patch"})
WRITTEN, NAMED, MENTIONED = 3, 2, 1
"""Weights of a path that was written, given as an argument, or mentioned in a text."""
LONGEST = 400
MOST_IN_TEXT = 40
MAX_SEARCHED_CHARS = 20_000  #: Of a text that are looked through.

_ENDING = re.compile(
    r"""\w[^/\\]*\.(?:
    py|pyi|ipynb|js|jsx|mjs|ts|tsx|vue|svelte|rs|go|c|h|cc|cpp|hpp|java|kt|swift|scala|rb|php|pl|lua
    |r|jl|sh|bash|zsh|sql|md|rst|txt|toml|yaml|yml|json|jsonl|csv|tsv|parquet|xml|html|htm|css|scss
    |ini|cfg|conf|env|lock|proto|tf|ex|exs|hs|ml|cs|fs|dart|zig|nix|log|pdf|docx|xlsx|png|jpg|jpeg
    |svg|gif|db|sqlite|diff|patch|service|tex|bib|org)$""",
    re.I | re.X,
)
_PATH = re.compile(
    r"(?<![\w/<:.~$@-])(?:~/|\.{1,2}/|/|[A-Za-z]:\\)?"
    r"(?:[\w.@+-]+[/\\])*(?:[\w.@+-]*\w)?(?:(?<=\w)/)?(?![\w<])"
)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.I)
_IN_PATCH = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?)([^\t\n]+)", re.M
)
_MARKED = re.compile(r"`([^`\n]+)`")
_NOT_FILES = frozenset({"/dev/null", "dev/null", "/usr/bin/env", "."})


def touched_files(messages: Dicts, earlier: Iterable[str] = ()) -> list[str]:
    """Return paths by recency and frequency of use, the most relevant first.

    `earlier` are those of an earlier summary, in their order.
    """
    before = list(dict.fromkeys(earlier))
    score = {path: 0.5 * (1 - index / len(before)) for index, path in enumerate(before)}
    weight: dict[str, int] = {}
    for index, message in enumerate(messages, 1):
        for path, counts in _touched(message):
            weight[path] = weight.get(path, 0) + counts
            score[path] = 1 + index / len(messages) + min(weight[path], 10) / 10
    return sorted(score, key=lambda path: -score[path])


def _touched(message: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for call in tool_calls(message):
        yield from _touched_by(call)
    for path in find_paths(user_text(message)):
        yield path, MENTIONED


def _touched_by(call: ToolCall) -> Iterator[tuple[str, int]]:
    named = WRITTEN if call.name in WRITERS else NAMED
    for key, value in call_arguments(call).items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if not isinstance(text, str) or key in BULK_KEYS:
                continue
            if key in PATH_KEYS:
                if is_path(text):
                    yield text, named
            elif key == "patch":
                yield from ((path.strip(), WRITTEN) for path in _IN_PATCH.findall(text))
            else:
                yield from ((path, MENTIONED) for path in find_paths(text))


def is_path(text: str) -> bool:
    one_line = bool(text.strip()) and "\n" not in text and len(text) <= LONGEST
    return one_line and text not in _NOT_FILES and not _ADDRESS.match(text)


def find_paths(text: str) -> list[str]:
    """Return the paths in a command, a script or a sentence."""
    found: dict[str, None] = {}
    for match in _PATH.finditer(_ADDRESS.sub(" ", text[:MAX_SEARCHED_CHARS])):
        path = match[0]
        if _looks_like_path(path):
            found[path] = None
            if len(found) == MOST_IN_TEXT:
                break
    return list(found)


def _looks_like_path(path: str) -> bool:
    if not path or len(path) > LONGEST or path in _NOT_FILES:
        return False
    if _ENDING.search(path) or (path.endswith("/") and len(path) > 2):
        return True
    return path.count("/") >= 2 and any(map(str.isalpha, path))


def marked_paths(section: str, *, all_of_them: bool = False) -> list[str]:
    """Return the paths that a section of notes marks as touched, or all its paths."""
    marked = [path for path in _MARKED.findall(section) if is_path(path)]
    return [*marked, *find_paths(section.replace("`", " "))] if all_of_them else marked


def mark_paths(section: str, files: Iterable[str]) -> str:
    """Mark `files` where the section names them, and list the others."""
    text = section.replace("`", "")
    missing = []
    for path in files:
        whole = rf"(?<![\w/.`~-]){re.escape(path)}(?![\w/`-]|\.\w)"
        text, found = re.subn(whole, lambda match: f"`{match[0]}`", text, count=1)
        if not found:
            missing.append(f"- `{path}`")
    return "\n".join(filter(None, [text, *missing]))


FILES_SHARE, RULES_SHARE = 0.3, 0.3  #: Parts of the budget for facts; user messages have the rest.
MOST_FILES = 100
MOST_OF_ONE = 700  #: Tokens per user message; of a longer one head and tail are kept.
SAME = 100  #: Leading characters by which a message is recognised.
AROUND = 8  #: Tokens of the tags around a message.

_QUOTED = re.compile("“([^“”]+)”")
_QUOTES = re.compile("[“”]")


class ConversationFacts(msgspec.Struct, frozen=True):
    users: tuple[str, ...]  #: Messages of the user, oldest first; a very long one with a gap.
    rules: tuple[str, ...]
    """Sentences of messages that are not among `users`, and rules of earlier notes."""
    files: tuple[str, ...]

    @property
    def tokens(self) -> int:
        users = sum(text_tokens(text) + AROUND for text in self.users)
        lines = sum(text_tokens(f"- `{line}`\n") for line in (*self.rules, *self.files))
        return users + lines


def extract_facts(
    messages: Dicts, earlier: Summary, room: int, pending: str = ""
) -> ConversationFacts:
    """Collect the facts of `messages`, which are replaced, in at most `room` tokens.

    `pending` is the open request if it is kept elsewhere and must be repeated.
    """
    before = marked_paths(earlier.notes[FILES], all_of_them=earlier.foreign)
    files = _within(touched_files(messages, before), room * FILES_SHARE)
    # Earlier notes may have what is pending in a shorter form.
    before_it = [text for text in earlier.users if text[:SAME] != pending[:SAME]]
    said = [*before_it, *map(user_text, messages), pending]
    said = [text for text in dict.fromkeys(said) if text]
    left = room - sum(text_tokens(f"- `{path}`\n") for path in files)
    users, whole = _newest(said, pending, int(left * (1 - RULES_SHARE)))
    rules = _rules_before(earlier)
    rules += [
        _QUOTES.sub('"', rule) for text in said if text not in whole for rule in find_rules(text)
    ]
    left -= sum(text_tokens(text) + AROUND for text in users)
    newest_first = _within(dict.fromkeys(reversed(rules)), left)
    return ConversationFacts(tuple(users), tuple(reversed(newest_first)), tuple(files[:MOST_FILES]))


def _newest(said: Sequence[str], pending: str, room: int) -> tuple[list[str], set[str]]:
    """Return the newest messages that fit, without small talk, and which are complete."""
    kept: list[str] = []
    whole: set[str] = set()
    for text in reversed(said):
        if text != pending and len(text) < SMALL_TALK and not find_rules(text):
            whole.add(text)  # it has nothing to keep
            continue
        shown = cut_to_tokens(text, min(MOST_OF_ONE, max(60, room - AROUND)))
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


def add_facts(notes: SummaryNotes, facts: ConversationFacts) -> SummaryNotes:
    """Add missing facts to the notes. Rules are quoted and files marked, so that the next
    compaction recognises them."""
    text = _QUOTES.sub("", notes[CONSTRAINTS])
    missing = []
    for rule in facts.rules:
        quoted = f"“{rule}”"
        if rule in text:
            text = text.replace(rule, quoted, 1)
        else:
            missing.append(f"- {quoted}")
    notes = notes.with_section(CONSTRAINTS, text).with_lines(CONSTRAINTS, missing)
    return notes.with_section(FILES, mark_paths(notes[FILES], facts.files))


def _rules_before(earlier: Summary) -> list[str]:
    section = earlier.notes[CONSTRAINTS]
    if earlier.foreign:
        return [line.lstrip("-* ") for line in section.splitlines()]
    return _QUOTED.findall(section)

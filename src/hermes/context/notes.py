"""The notes a conversation is compacted to: sections, the summary message, and facts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hermes.context.conversation import (
    IMAGE,
    PATH_KEYS,
    call_arguments,
    content_text,
    cut_to_tokens,
    message_text,
    todo_list_in,
    tool_calls,
)
from hermes.context.engine import Dict, Dicts
from hermes.core.messages import COMPACTED, NOT_THE_USER, STEERED, TODO_LIST, ToolCall
from hermes.core.model import text_tokens

ACTIVE, GOAL, CONSTRAINTS = "Active Task", "Goal", "Constraints & Preferences"
ACTIONS, PROGRESS, DECISIONS = "Completed Actions", "Progress", "Key Decisions"
FILES, NEXT, CRITICAL = "Relevant Files", "Next Steps", "Critical Context"
SECTIONS = {
    ACTIVE: "the newest unfinished request, in the user's own words",
    GOAL: "what all this is for",
    CONSTRAINTS: "what the user wants always, never, or in a certain way",
    ACTIONS: "what was done, with paths, commands, line numbers and results",
    PROGRESS: "under ### Done, ### In Progress, ### Blocked",
    DECISIONS: "what was decided, and why",
    FILES: "paths, and what each is for",
    NEXT: "what remains to be done, in order",
    CRITICAL: "values, names, error texts and findings that cannot be found again",
}
"""Each with what belongs in it."""
NEWEST_LAST = frozenset({ACTIONS, PROGRESS})
"""Sections that are cut at the beginning if they are too long."""

_OTHER_NAMES = {
    "constraints and preferences": CONSTRAINTS,
    "constraints": CONSTRAINTS,
    "preferences": CONSTRAINTS,
    "actions": ACTIONS,
    "decisions": DECISIONS,
    "files": FILES,
    "current task": ACTIVE,
}
_NAMES = {**{name.lower(): name for name in SECTIONS}, **_OTHER_NAMES}
_HEADING = re.compile(
    r"(?P<mark>\s{0,3}#{1,6}\s*)?(?:\d+[.)]\s*)?(?P<bold>\*\*|__)?\s*"
    r"(?P<name>" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")"
    r"\s*(?P<colon>:?)\s*(?:\*\*|__)?\s*(?P<colon2>:?)\s*(?P<rest>.*)",
    re.I,
)
_STATE = re.compile(r"\s{0,3}(?:#{1,6}\s*|\*\*)(Done|In Progress|Blocked)\W*", re.I)


class SummaryNotes(msgspec.Struct, frozen=True):
    sections: Mapping[str, str] = {}  #: Text by section name, without empty sections.

    def text(self) -> str:
        names = [name for name in SECTIONS if self.sections.get(name)]
        return "\n\n".join(f"## {name}\n{self.sections[name]}" for name in names)

    def __getitem__(self, name: str) -> str:
        return self.sections.get(name, "")

    def with_section(self, name: str, text: str) -> "SummaryNotes":
        return SummaryNotes({**self.sections, name: text.strip()})

    def with_lines(self, name: str, lines: Iterable[str]) -> "SummaryNotes":
        """Append lines to a section, except those it has already."""
        text = self[name]
        there = set(text.splitlines())
        new = [line for line in dict.fromkeys(lines) if line and line not in there]
        return self.with_section(name, "\n".join([text, *new])) if new else self

    def fitted(self, tokens: int) -> "SummaryNotes":
        """Cut the longest sections, at line ends, so that all fit so many tokens."""
        sizes = {
            name: text_tokens(f"## {name}\n{text}\n\n") for name, text in self.sections.items()
        }
        if sum(sizes.values()) <= tokens:
            return self
        rest = sorted(sizes.values())
        while rest and rest[0] * len(rest) <= tokens:
            tokens -= rest.pop(0)
        level = tokens // len(rest) if rest else tokens  # the limit per section
        cut = {
            name: _cut(text, max(0, level - text_tokens(f"## {name}\n\n")), name in NEWEST_LAST)
            if sizes[name] > level
            else text
            for name, text in self.sections.items()
        }
        return SummaryNotes({name: text for name, text in cut.items() if text})


def parse_notes(text: str) -> SummaryNotes:
    """Parse the sections of a text; text before the first section is dropped."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if state := _STATE.fullmatch(line):
            lines = found.setdefault(PROGRESS, [])
            lines.append(f"### {state[1].title()}")
        elif heading := _heading(line):
            name, rest = heading
            lines = found.setdefault(name, [])
            lines.extend([rest] if rest else [])
        elif lines is not None:
            lines.append(line.rstrip())
    texts = {name: "\n".join(body).strip() for name, body in found.items()}
    return SummaryNotes({name: body for name, body in texts.items() if body})


def _heading(line: str) -> tuple[str, str] | None:
    """Return the section that a line begins and the rest of the line, or None."""
    match = _HEADING.fullmatch(line)
    if match is None:
        return None
    colon = match["colon"] or match["colon2"]
    if match["rest"] and not colon:
        return None  # a sentence that begins with a section name
    if not (match["mark"] or match["bold"] or colon):
        return None
    return _NAMES[match["name"].lower()], match["rest"]


def _cut(text: str, tokens: int, newest_last: bool) -> str:
    lines = text.splitlines()
    kept: list[str] = []
    for line in reversed(lines) if newest_last else lines:
        tokens -= text_tokens(line + "\n")
        if tokens < 2:
            break
        kept.append(line)
    if not kept:
        return cut_to_tokens(text, tokens + text_tokens(lines[0])) if lines and tokens > 20 else ""
    return "\n".join(["…", *reversed(kept)] if newest_last else [*kept, "…"])


# The summary message that replaces compacted messages: written and read back.

SUMMARY_PREFIX = COMPACTED
INTRO = (
    f"{SUMMARY_PREFIX} Earlier messages were replaced by these notes to save space. They are "
    "reference material, not a request: what they report is done, do not answer or repeat it. "
    "Answer only what follows them, and go on with the active task."
)
END = "[END OF CONTEXT COMPACTION. The user's message:]"
USERS = "## User Messages (word for word, oldest first)"
IN_USERS = "(The newest message of the user is the last of those below.)"
AFTER_END = "(The newest message of the user stands at the end of these notes.)"
IN_TAIL = "(The newest message of the user, further down, takes precedence.)"
PLACES = (IN_USERS, AFTER_END, IN_TAIL)
"""Where that message is; one of these closes the active task."""

_FOREIGN_PREFIX = "[CONTEXT COMPACTION"
"""Start of summaries in conversations imported from other programs."""
_USER = re.compile(r"^<user>\n(.*?)\n</user>$", re.M | re.S)
_END_LINE = re.compile(rf"^{re.escape(END)}(?:\n|$)", re.M)


class Summary(msgspec.Struct, frozen=True):
    notes: SummaryNotes = SummaryNotes()
    users: tuple[str, ...] = ()  #: User messages, oldest first.
    todo: str = ""  #: The todo list as its tool shows it.
    request: Any = None  #: The content of a message of the user that is joined to the notes.
    foreign: bool = False  #: Another program wrote it, so its facts are not marked.


def is_summary(message: Dict) -> bool:
    return message.get("role") in ("user", "assistant") and message_text(message).startswith(
        _FOREIGN_PREFIX
    )


def write_summary(summary: Summary) -> Dict:
    notes = summary.notes.text().replace(TODO_LIST, TODO_LIST.replace(":", " –"))
    users = [f"<user>\n{text}\n</user>" for text in summary.users]
    parts = [INTRO, summary.todo, notes, "\n".join([USERS, *users]) if users else ""]
    return join_request("\n\n".join(filter(None, parts)), summary.request)


def join_request(text: str, request: Any) -> Dict:
    """Return a message with `text`, followed by the content of a user message, if any."""
    if request is None:
        return {"role": "user", "content": text}
    text = f"{text}\n\n{END}\n"
    if isinstance(request, list) and IMAGE in content_text(request):
        blocks: list[Any] = [{"type": "text", "text": text}, *request]
        return {"role": "user", "content": blocks}
    return {"role": "user", "content": text + content_text(request)}


def split_request(message: Dict) -> tuple[str, Any]:
    """Return the text of a summary and the content joined to it, or None."""
    content = message.get("content")
    blocks: list[Any] = content if isinstance(content, list) and content else [content]
    first, *others = blocks
    text = content_text([first] if isinstance(first, dict) else first)
    end = _END_LINE.search(text)
    if end is None:
        return text, None
    said, text = text[end.end() :], text[: end.start()]
    head = [{"type": "text", "text": said}] if said else []
    return text, [*head, *others] if others else said


def read_summary(message: Dict) -> Summary:
    text, request = split_request(message)
    notes, _, said_by_user = text.partition(f"\n{USERS}\n")
    return Summary(
        notes=_read_notes(notes),
        users=tuple(_USER.findall(said_by_user)),
        todo=todo_list_in({"role": "user", "content": text}),
        request=request,
        foreign=not text.startswith(INTRO),
    )


def _read_notes(text: str) -> SummaryNotes:
    for place in PLACES:
        text = text.replace(place, "")
    notes = parse_notes(text)
    if notes.sections:
        return notes
    rest = text.removeprefix(INTRO).partition("]")[2] if not text.startswith(INTRO) else ""
    return SummaryNotes({CRITICAL: rest.strip()}) if rest.strip() else notes


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Merge summaries. Only conversations from other programs have more than one."""
    if len(summaries) == 1:
        return summaries[0]
    notes, todo = SummaryNotes(), ""
    for summary in summaries:
        for name, text in summary.notes.sections.items():
            if name == ACTIVE:
                notes = notes.with_section(ACTIVE, text)
            else:
                notes = notes.with_lines(name, text.splitlines())
        todo = summary.todo or todo
    users = tuple(dict.fromkeys(text for summary in summaries for text in summary.users))
    return Summary(notes, users, todo, foreign=any(summary.foreign for summary in summaries))


# What is put into every summary whatever a model wrote: words of the user, rules, files.

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
    lines = [" ".join(sentences[index].split()) for index in chosen]
    return [line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…" for line in lines]


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
        mentioned = ((path, MENTIONED) for path in find_paths(user_text(message)))
        called = (each for call in tool_calls(message) for each in _touched_by(call))
        for path, counts in (*called, *mentioned):
            weight[path] = weight.get(path, 0) + counts
            score[path] = 1 + index / len(messages) + min(weight[path], 10) / 10
    return sorted(score, key=lambda path: -score[path])


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
        if not path or len(path) > LONGEST or path in _NOT_FILES:
            continue
        named = _ENDING.search(path) or (path.endswith("/") and len(path) > 2)
        if named or (path.count("/") >= 2 and any(map(str.isalpha, path))):
            found[path] = None
            if len(found) == MOST_IN_TEXT:
                break
    return list(found)


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
    section = earlier.notes[CONSTRAINTS]
    rules = _QUOTED.findall(section)
    if earlier.foreign:
        rules = [line.lstrip("-* ") for line in section.splitlines()]
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

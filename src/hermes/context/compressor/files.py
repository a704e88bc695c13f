"""Which files a conversation is about."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hermes.context.compressor.prune import PATH_KEYS
from hermes.context.compressor.reading import arguments_of, calls_of
from hermes.context.compressor.user_words import words_of
from hermes.context.engine import Dicts
from hermes.core.messages import ToolCall

BULK_KEYS = frozenset({"content", "old_string", "new_string", "data", "todos"})
"""Arguments with text that goes into a file: paths in there were not touched."""
WRITERS = frozenset({"write_file", "patch"})
WRITTEN, NAMED, MENTIONED = 3, 2, 1
"""How much a path counts that was changed, given as an argument, or seen in a text."""
LONGEST = 400
MOST_IN_TEXT = 40
MOST_CHARS = 20_000
"""Of a text that are looked through."""

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


def files_of(messages: Dicts, earlier: Iterable[str] = ()) -> list[str]:
    """Paths by how recently and how much they were used, the most telling first.

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
    for call in calls_of(message):
        yield from _touched_by(call)
    for path in paths_in(words_of(message)):
        yield path, MENTIONED


def _touched_by(call: ToolCall) -> Iterator[tuple[str, int]]:
    named = WRITTEN if call.name in WRITERS else NAMED
    for key, value in arguments_of(call).items():
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
                yield from ((path, MENTIONED) for path in paths_in(text))


def is_path(text: str) -> bool:
    one_line = bool(text.strip()) and "\n" not in text and len(text) <= LONGEST
    return one_line and text not in _NOT_FILES and not _ADDRESS.match(text)


def paths_in(text: str) -> list[str]:
    """What looks like a path in a command, a script or a sentence."""
    found: dict[str, None] = {}
    for match in _PATH.finditer(_ADDRESS.sub(" ", text[:MOST_CHARS])):
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


def marked_in(section: str, *, all_of_them: bool = False) -> list[str]:
    """The files a section of notes marks as touched; or every path it has."""
    marked = [path for path in _MARKED.findall(section) if is_path(path)]
    return [*marked, *paths_in(section.replace("`", " "))] if all_of_them else marked


def with_marks(section: str, files: Iterable[str]) -> str:
    """The section with `files` marked where it names them, and listed where it does not."""
    text = section.replace("`", "")
    missing = []
    for path in files:
        whole = rf"(?<![\w/.`~-]){re.escape(path)}(?![\w/`-]|\.\w)"
        text, found = re.subn(whole, lambda match: f"`{match[0]}`", text, count=1)
        if not found:
            missing.append(f"- `{path}`")
    return "\n".join(filter(None, [text, *missing]))

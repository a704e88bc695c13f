"""References such as `@file:path` in a message: syntax, allowed paths, ignored files."""

import contextlib
import difflib
import os
import re
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import msgspec

from hermes.core.errors import HermesError
from hermes.core.messages import Image, Text, User
from hermes.core.model import BYTES_PER_TOKEN
from hermes.security import CREDENTIAL_STORES, OWN_FILES, PathGuard, is_below
from hermes.terminal.local.search import IgnoreRule, find_repository, is_ignored, parse_gitignore
from hermes.tools import ToolDeps
from hermes.util.files import real_path

Kind = Literal["file", "folder", "url", "git", "diff", "staged", "bare"]

BEFORE = r"(?<![A-Za-z0-9_@/\\.`-])"
"""Not inside a word or an address, and not behind a backslash."""
QUOTED = r""""[^"\n]+"|'[^'\n]+'"""
PLAIN = r"""(?!["'])(?:\\[ \t]|\S)+"""
_LINES = r":\d+(?:-\d+)?"
_REFERENCE = re.compile(
    rf"""{BEFORE}@(?:
        (?P<kind>file|folder|url|git):(?P<value>(?:{QUOTED})(?:{_LINES})?|{PLAIN})
      | (?P<word>diff|staged)(?![\w/-]|[.:][\w/])
      | (?P<bare>(?:{QUOTED})(?:{_LINES})?|{PLAIN})
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(
    r"^[ ]{0,3}(?P<fence>```+|~~~+).*?(?:^[ ]{0,3}(?P=fence)|\Z)"
    r"|(?<!`)(?P<tick>`+)(?!`)[^\n]+?(?<!`)(?P=tick)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_QUOTES = re.compile(rf"""(?P<quoted>{QUOTED})(?P<lines>{_LINES})?""")
_RANGE = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
_TRAILING = ".,;:!?)]}>'\"*_…，。、；：！？）】」』》"
_WIDE = re.compile("[，。、；：！？（）【】「」『』《》]")
"""Punctuation of scripts that put no blanks around a path."""


MAX_MARKS = 4  #: Behind a path that are tried as a part of it.


class Reference(msgspec.Struct, frozen=True):
    written: str  #: As it stands in the text.
    kind: Kind
    value: str = ""  #: What is behind the colon, without quotes.
    quoted: bool = False

    def shorter(self, value: str) -> "Reference":
        """When only `value`, the beginning of its value, is meant."""
        end = len(self.written) - (len(self.value) - len(value))
        return msgspec.structs.replace(self, written=self.written[:end], value=value)


class LineRange(msgspec.Struct, frozen=True):
    """Of a file, from 1, both included."""

    first: int
    last: int


def references(text: str) -> list[Reference]:
    """Return the references in the order of the text, each once. Code in backticks is skipped."""
    prose = _CODE.sub(lambda code: " " * len(code[0]), text)
    return list(dict.fromkeys(map(_reference, _REFERENCE.finditer(prose))))


def _reference(match: re.Match[str]) -> Reference:
    if word := match["word"]:
        return Reference(match[0], cast("Kind", word.lower()))
    kind = cast("Kind", (match["kind"] or "bare").lower())
    value = match["value"] or match["bare"]
    if kind == "bare" and re.match(r"https?://", value, re.IGNORECASE):
        kind = "url"
    if quotes := _QUOTES.fullmatch(value):
        return Reference(match[0], kind, quotes["quoted"][1:-1] + (quotes["lines"] or ""), True)
    return Reference(match[0], kind, re.sub(r"\\([ \t])", r"\1", value))


def spellings(reference: Reference) -> list[str]:
    """Return the possible values, most likely first: punctuation may follow a path."""
    value = reference.value
    if reference.quoted:
        return [value]
    bare = value.rstrip(_TRAILING)
    ends = range(len(value), max(len(bare), len(value) - MAX_MARKS) - 1, -1)
    before_wide = _WIDE.split(value, maxsplit=1)[0]
    found = dict.fromkeys([*(value[:end] for end in ends), bare, before_wide])
    return [each for each in found if each]


def with_lines(value: str) -> tuple[str, LineRange | None]:
    """Split `path:10-20` into path and lines; None without lines."""
    if found := _RANGE.fullmatch(value):
        first = int(found["first"])
        return found["path"], LineRange(first, int(found["last"] or first))
    return value, None


def address(value: str) -> str:
    """Return a URL without the punctuation of the sentence around it."""
    value = _WIDE.split(value, maxsplit=1)[0]
    while value and (
        value[-1] in ".,;:!?'\"*>" or (value[-1] == ")" and value.count("(") < value.count(")"))
    ):
        value = value[:-1]
    return value


Fetch = Callable[[str], Awaitable[str]]  #: The text of a web page. Raises `HermesError`.

WARN_SHARE = 0.25
MAX_SHARE = 0.5


class ReferenceContext(msgspec.Struct, frozen=True):
    guard: PathGuard
    """Judges paths of this machine. `~` is its home; its workspace does not matter."""
    folder: Path  #: Where relative paths start and git is asked.
    context_length: int  #: Of the model, in tokens.
    redact: Callable[[str], str]  #: Takes secrets out. Run in a thread.
    fetch: Fetch | None = None
    """None: pages cannot be attached. `page_fetch` makes one that is guarded."""
    images: bool = True  #: Whether the model sees images.

    @property
    def most_tokens(self) -> int:
        return int(self.context_length * MAX_SHARE)

    @property
    def most_bytes(self) -> int:
        """What has more is refused, so nothing beyond it needs to be read."""
        return self.most_tokens * BYTES_PER_TOKEN


class Attachment(msgspec.Struct, frozen=True):
    """What one reference brought."""

    key: str  #: The same for two references that mean the same.
    written: str  #: The reference, as it was typed.
    detail: str  #: What it is, in a few words.
    text: str
    image: Image | None = None
    warnings: tuple[str, ...] = ()
    size: int = 0  #: Bytes of the whole, where they were too many to read all.


class ReferenceRefused(HermesError):
    """Why a reference brings nothing. The message stands behind the reference."""


class ExpandedMessage(msgspec.Struct, frozen=True):
    text: str  #: What the user typed, and below it what is attached.
    images: tuple[Image, ...] = ()
    warnings: tuple[str, ...] = ()  #: For the user, one line each.
    tokens: int = 0  #: Of what is attached, as estimated.

    @property
    def message(self) -> User:
        return User((Text(self.text), *self.images))


def page_fetch(deps: ToolDeps) -> Fetch:
    """Fetches with the guard, the limits and the reader of `web_extract`, which are loaded with
    the first page."""

    async def fetch(url: str) -> str:
        from hermes.app.references.expansion import fetch_page  # it imports this module

        return await fetch_page(url, deps)

    return fetch


SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_history",
    ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zsh_history", ".kshrc",
    ".cshrc", ".tcshrc", ".login", ".config/fish",
)  # fmt: skip
"""Files in which users export keys."""
ANYWHERE = (*CREDENTIAL_STORES, *SHELL_FILES, "_netrc")
"""Blocked in every folder: an `.npmrc` of a project contains tokens too."""
LIVE = ("/proc", "/sys")  #: The state of the system, such as the environment of processes.
HINT = "copy the part you want to show into the message"

_ANYWHERE = tuple(tuple(name.casefold().split("/")) for name in ANYWHERE)
_FIRST = frozenset(name[0] for name in _ANYWHERE)
_OWN = frozenset(name for name in OWN_FILES if name != "config.yaml")
"""The settings may be attached: keys in them are redacted."""


def check_allowed(path: str, folder: Path, guard: PathGuard) -> str:
    """Return the real path of `path`. Raises `ReferenceRefused` for a blocked one."""
    real = real_path(path, str(folder), str(guard.home))
    for each in (os.path.normpath(folder / at_home(path, guard)), real):
        if reason := why_blocked(each, guard):
            raise ReferenceRefused(f"it is blocked: {reason}", hint=HINT)
    return real


def at_home(path: str, guard: PathGuard) -> str:
    """`path` with `~` spelled out."""
    return str(guard.home) + path[1:] if path == "~" or path.startswith("~/") else path


def why_blocked(path: str, guard: PathGuard) -> str:
    """Return why an absolute path is blocked; "" if it is allowed."""
    parts = tuple(path.casefold().split("/"))
    if holds_secrets(parts) or guard.is_credential(path):
        return "keys, passwords and shell settings are not attached"
    if _is_own(path, guard):
        return "Hermes' own keys and data are not attached"
    if any(is_below(path, place) for place in LIVE):
        return "it is the live state of the system"
    linked = (os.path.realpath(guard.home / name) for name in SHELL_FILES)
    if any(is_below(path, place) for place in linked):
        return "it is a shell setting"
    return ""


def holds_secrets(parts: tuple[str, ...]) -> bool:
    """Return whether a path with these case-folded parts is blocked in every folder."""
    if _FIRST.isdisjoint(parts):
        return False
    return any(
        parts[start : start + len(name)] == name
        for name in _ANYWHERE
        for start in range(len(parts))
    )


def _is_own(path: str, guard: PathGuard) -> bool:
    """Return True for paths in our homes, or in what looks like another Hermes home."""
    if guard.is_own(path):
        return Path(path).name != "config.yaml"
    ours = [os.path.realpath(root) for root in guard.own]
    for home in Path(path).parents:
        if home.name.casefold() != ".hermes" and str(home) not in ours:
            continue
        inside = Path(path).relative_to(home).parts
        name = (inside[2:] if inside[0] == "profiles" else inside)[:1]
        if name and (name[0].casefold() in _OWN or name[0].casefold().startswith(".env")):
            return True
    return False


HEADING = "--- Attached Context ---"
_RUNS = re.compile("`{3,}")
_SUFFIX = re.compile(r"\.([A-Za-z0-9+]{1,12})")


def fenced_text(text: str, suffix: str = "") -> str:
    """Put `text` in a fence longer than any in it; `suffix` (`.py`) names the language."""
    fence = "`" * max([3, *(len(run) + 1 for run in _RUNS.findall(text))])
    language = found[1].lower() if (found := _SUFFIX.fullmatch(suffix)) else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def one_line(text: str) -> str:
    """Return a name on one line; line breaks and undecodable bytes are escaped."""
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown
    )


MAX_SIMILAR_NAMES = 5_000


def similar_name(path: str, folder: Path, guard: PathGuard) -> str:
    """Return the most similar name in the same folder, written like `path`; "" if none is."""
    head, _, name = path.rpartition("/")
    start = Path(folder, at_home(f"{head}/" if head or path.startswith("/") else "", guard))
    try:
        with os.scandir(start) as entries:
            names = [entry.name for entry in islice(entries, MAX_SIMILAR_NAMES)]
    except OSError:
        return ""
    by_lower = {each.lower(): each for each in names if not holds_secrets((each.casefold(),))}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return one_line(f"{head}/{by_lower[near[0]]}" if head else by_lower[near[0]]) if near else ""


LONGEST = 200_000  #: Characters of one file of rules.


class IgnoreRules:
    """What git ignores below `folder`, a real path, read from the ignore files.

    Nothing is ignored in a folder that is ignored itself: the user named it on purpose.
    """

    def __init__(self, folder: str) -> None:
        top = find_repository(folder)
        self._top = "" if top is None else top.rstrip("/") + "/"
        self._rules: dict[str, list[IgnoreRule]] = {}
        if self._top and self._is_inside_ignored(folder):
            self._top = ""

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """`path` is absolute and directly below a folder that is not ignored."""
        if not self._top or not path.startswith(self._top):
            return False
        relative = path[len(self._top) :]
        return bool(
            is_ignored(self._for(relative.rpartition("/")[0]), relative, is_folder=is_folder)
        )

    def _is_inside_ignored(self, folder: str) -> bool:
        parts = folder[len(self._top) :].split("/") if folder.startswith(self._top) else []
        paths = (self._top + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return any(self.ignores(path, is_folder=True) for path in paths)

    def _for(self, folder: str) -> list[IgnoreRule]:
        # The rules of the nearest folder come last: they decide.
        if folder not in self._rules:
            above = (
                self._for(folder.rpartition("/")[0])
                if folder
                else self._own("", ".git/info/exclude")
            )
            base = f"{folder}/" if folder else ""
            self._rules[folder] = above + self._own(base, ".gitignore")
        return self._rules[folder]

    def _own(self, base: str, name: str) -> list[IgnoreRule]:
        with (
            contextlib.suppress(OSError),
            Path(self._top, base, name).open(encoding="utf-8", errors="replace") as file,
        ):
            return parse_gitignore(file.read(LONGEST), base)
        return []

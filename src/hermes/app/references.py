"""References such as `@file:path` in a message: syntax, completion, allowed paths, ignored files.

`reference_expansion` attaches what they refer to.
"""

import asyncio
import contextlib
import difflib
import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast

import msgspec

from hermes.app.git import UserGit
from hermes.core.errors import HermesError
from hermes.core.messages import Image, Text, User
from hermes.core.model import BYTES_PER_TOKEN
from hermes.security import CREDENTIAL_STORES, OWN_FILES, PathGuard, is_below
from hermes.store import GitCommandFailed
from hermes.terminal import IgnoreRule, find_repository, is_ignored, parse_gitignore
from hermes.tools import ToolDeps
from hermes.util.files import real_path

Kind = Literal["file", "folder", "url", "git", "diff", "staged", "bare"]

BEFORE = r"(?<![A-Za-z0-9_@/\\.`-])"  #: Not inside a word or an address, nor after a backslash.
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
"""Punctuation of scripts that put no spaces around a path."""
MAX_MARKS = 4  #: Punctuation marks after a path that may be part of it.


class Reference(msgspec.Struct, frozen=True):
    written: str  #: The reference as typed.
    kind: Kind
    value: str = ""  #: The part after the colon, without quotes.
    quoted: bool = False

    def shorten(self, value: str) -> "Reference":
        """Return the reference for `value`, the beginning of its value."""
        end = len(self.written) - (len(self.value) - len(value))
        return msgspec.structs.replace(self, written=self.written[:end], value=value)


class LineRange(msgspec.Struct, frozen=True):
    first: int  #: From 1.
    last: int  #: Included.


def find_references(text: str) -> list[Reference]:
    """Return the references in the order of the text, each once. Code in backticks is skipped."""
    prose = _CODE.sub(lambda code: " " * len(code[0]), text)
    return list(dict.fromkeys(map(_parse_reference, _REFERENCE.finditer(prose))))


def _parse_reference(match: re.Match[str]) -> Reference:
    if word := match["word"]:
        return Reference(match[0], cast("Kind", word.lower()))
    kind = cast("Kind", (match["kind"] or "bare").lower())
    value = match["value"] or match["bare"]
    if kind == "bare" and re.match(r"https?://", value, re.IGNORECASE):
        kind = "url"
    if quotes := _QUOTES.fullmatch(value):
        return Reference(match[0], kind, quotes["quoted"][1:-1] + (quotes["lines"] or ""), True)
    return Reference(match[0], kind, re.sub(r"\\([ \t])", r"\1", value))


def possible_values(reference: Reference) -> list[str]:
    """Return the possible values, most likely first: punctuation may follow a path."""
    value = reference.value
    if reference.quoted:
        return [value]
    bare = value.rstrip(_TRAILING)
    ends = range(len(value), max(len(bare), len(value) - MAX_MARKS) - 1, -1)
    before_wide = _WIDE.split(value, maxsplit=1)[0]
    found = dict.fromkeys([*(value[:end] for end in ends), bare, before_wide])
    return [each for each in found if each]


def split_lines(value: str) -> tuple[str, LineRange | None]:
    """Split `path:10-20` into path and lines; None without lines."""
    if found := _RANGE.fullmatch(value):
        first = int(found["first"])
        return found["path"], LineRange(first, int(found["last"] or first))
    return value, None


def clean_url(value: str) -> str:
    """Return a URL without the punctuation of the sentence around it."""
    value = _WIDE.split(value, maxsplit=1)[0]
    while value and (
        value[-1] in ".,;:!?'\"*>" or (value[-1] == ")" and value.count("(") < value.count(")"))
    ):
        value = value[:-1]
    return value


Fetch = Callable[[str], Awaitable[str]]  #: Returns the text of a web page. Raises `HermesError`.

WARN_SHARE = 0.25  #: Share of the context length above which attachments cause a warning.
MAX_SHARE = 0.5


class ReferenceContext(msgspec.Struct, frozen=True):
    """What the references of a message may use."""

    guard: PathGuard  #: Protects credentials; its home is `~`.
    folder: Path  #: Where relative paths start and git runs.
    context_length: int  #: Context length of the model in tokens.
    redact: Callable[[str], str]  #: Removes secrets; runs in a thread.
    fetch: Fetch | None = None  #: None: pages cannot be attached. See `page_fetch`.
    images: bool = True  #: Whether the model accepts images.
    on_read: Callable[[str, os.stat_result], None] = lambda _path, _state: None
    """Called in a thread for each text file that is attached, with its state."""

    @property
    def max_tokens(self) -> int:
        return int(self.context_length * MAX_SHARE)

    @property
    def max_bytes(self) -> int:
        """Bytes that are read of one attachment; a larger one is refused anyway."""
        return self.max_tokens * BYTES_PER_TOKEN


class Attachment(msgspec.Struct, frozen=True):
    """The content that one reference refers to."""

    key: str  #: Equal for references to the same content.
    written: str  #: The reference as typed.
    detail: str  #: A short description.
    text: str
    image: Image | None = None
    warnings: tuple[str, ...] = ()
    size: int = 0  #: The whole size in bytes, if only a part was read.


class ReferenceRefused(HermesError):
    """A reference cannot be attached; the message says why."""


class ExpandedMessage(msgspec.Struct, frozen=True):
    text: str  #: The user's text followed by the attachments.
    images: tuple[Image, ...] = ()
    warnings: tuple[str, ...] = ()  #: Lines for the user.
    tokens: int = 0  #: Estimated tokens of the attachments.

    @property
    def message(self) -> User:
        return User((Text(self.text), *self.images))


def page_fetch(deps: ToolDeps) -> Fetch:
    """Return a function that fetches pages as `web_extract` does, with its guard and limits."""

    async def fetch(url: str) -> str:
        from hermes.app.reference_expansion import fetch_page  # heavy, and it imports this module

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
LIVE = ("/proc", "/sys")  #: State of the system, such as the environment of processes.

_ANYWHERE = tuple(tuple(name.casefold().split("/")) for name in ANYWHERE)
_FIRST = frozenset(name[0] for name in _ANYWHERE)
_OWN = frozenset(name for name in OWN_FILES if name != "config.yaml")
"""The settings may be attached: keys in them are redacted."""


def check_allowed(path: str, folder: Path, guard: PathGuard) -> str:
    """Return the real path of `path`. Raises `ReferenceRefused` for a blocked one."""
    real = real_path(path, str(folder), str(guard.home))
    for each in (os.path.normpath(folder / expand_home(path, guard)), real):
        if reason := why_blocked(each, guard):
            hint = "copy the part you want to show into the message"
            raise ReferenceRefused(f"it is blocked: {reason}", hint=hint)
    return real


def expand_home(path: str, guard: PathGuard) -> str:
    """Return `path` with `~` replaced by the home of the user."""
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
    start = Path(folder, expand_home(f"{head}/" if head or path.startswith("/") else "", guard))
    try:
        with os.scandir(start) as entries:
            names = [entry.name for entry in islice(entries, MAX_SIMILAR_NAMES)]
    except OSError:
        return ""
    by_lower = {each.lower(): each for each in names if not holds_secrets((each.casefold(),))}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return one_line(f"{head}/{by_lower[near[0]]}" if head else by_lower[near[0]]) if near else ""


MAX_RULE_CHARS = 200_000  #: Characters that are read of one ignore file.


class IgnoreRules:
    """The ignore rules of git for `folder`, a real path.

    Nothing is ignored inside a folder that is ignored itself: the user named it on purpose.
    """

    def __init__(self, folder: str) -> None:
        top = find_repository(folder)
        self._top = "" if top is None else top.rstrip("/") + "/"
        self._rules: dict[str, list[IgnoreRule]] = {}
        if self._top and folder.startswith(self._top):
            parts = folder[len(self._top) :].split("/")
            paths = (self._top + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
            if any(self.ignores(path, is_folder=True) for path in paths):
                self._top = ""

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether git ignores `path`, an absolute path in a folder that is not ignored."""
        if not self._top or not path.startswith(self._top):
            return False
        relative = path[len(self._top) :]
        rules = self._for(relative.rpartition("/")[0])
        return bool(is_ignored(rules, relative, is_folder=is_folder))

    def _for(self, folder: str) -> list[IgnoreRule]:
        # The rules of the nearest folder come last: they decide.
        if folder not in self._rules:
            parent = folder.rpartition("/")[0]
            above = self._for(parent) if folder else self._read("", ".git/info/exclude")
            base = f"{folder}/" if folder else ""
            self._rules[folder] = above + self._read(base, ".gitignore")
        return self._rules[folder]

    def _read(self, base: str, name: str) -> list[IgnoreRule]:
        with (
            contextlib.suppress(OSError),
            Path(self._top, base, name).open(encoding="utf-8", errors="replace") as file,
        ):
            return parse_gitignore(file.read(MAX_RULE_CHARS), base)
        return []


# Completion, without delaying a keystroke.

MAX_ENTRIES_AT_ONCE = 6_000  #: Entries of a folder that are read while the user waits.
MAX_NAMES = 300_000  #: Names that are kept of one folder or repository.
MAX_CACHED_FOLDERS = 16  #: Folders whose names are kept.
FRESH_SECONDS = 5.0
LIST_TIMEOUT = 10.0

T = TypeVar("T")
Entry = tuple[str, str, bool]  #: The name in lower case, the name, and whether it is a folder.
LowerPath = tuple[str, str]  #: The path in lower case, and the path.


class BackgroundValue(Generic[T]):
    """A value that a thread computes, and computes again once it is old."""

    def __init__(self, make: Callable[[], T], value: T) -> None:
        self._make, self._value = make, value
        self._made = -FRESH_SECONDS
        self._making = threading.Lock()

    def get(self) -> T:
        """Return the last value without waiting."""

        def renew() -> None:
            try:
                self._value = self._make()
                self._made = time.monotonic()
            finally:
                self._making.release()

        if time.monotonic() - self._made >= FRESH_SECONDS and self._making.acquire(blocking=False):
            threading.Thread(target=renew, name="hermes-names", daemon=True).start()
        return self._value


class FileNames:
    """Cached names of files for completion."""

    def __init__(self) -> None:
        self._folders: dict[str, BackgroundValue[list[Entry]]] = {}  #: Only very large ones.
        self._repositories: dict[str, BackgroundValue[list[LowerPath]]] = {}

    def in_folder(self, folder: str) -> list[Entry]:
        """Return the first names of a very large folder now, and all of them a moment later."""
        if folder not in self._folders:
            entries, more = _list_folder(folder, MAX_ENTRIES_AT_ONCE)
            if not more:
                return entries
            if len(self._folders) >= MAX_CACHED_FOLDERS:
                self._folders.clear()
            self._folders[folder] = BackgroundValue(
                lambda: _list_folder(folder, MAX_NAMES)[0], entries
            )
        return self._folders[folder].get()

    def in_repository(self, folder: str) -> list[LowerPath]:
        """Return the paths that git does not ignore; none until git has answered."""
        if folder not in self._repositories:
            if len(self._repositories) >= MAX_CACHED_FOLDERS:
                self._repositories.clear()
            self._repositories[folder] = BackgroundValue(lambda: _list_repository(folder), [])
        return self._repositories[folder].get()


def _list_folder(folder: str, most: int) -> tuple[list[Entry], bool]:
    """Return the first entries of a folder, sorted, and whether there are more."""
    entries: list[Entry] = []
    try:
        with os.scandir(folder) as found:
            for entry in islice(found, most):
                is_folder = False
                with contextlib.suppress(OSError):  # a link that leads to itself
                    is_folder = entry.is_dir()
                entries.append((entry.name.lower(), entry.name, is_folder))
            more = next(found, None) is not None
    except OSError:
        return [], False
    return sorted(entries), more


def _list_repository(folder: str) -> list[LowerPath]:
    """Return the files that git does not ignore; none outside a repository or if git is slow."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        listed = asyncio.run(UserGit(Path(folder)).run(*command, seconds=LIST_TIMEOUT)).output
    except GitCommandFailed:
        return []
    names = (os.fsdecode(name) for name in listed.split(b"\0")[:MAX_NAMES] if name)
    return [(name.lower(), name) for name in names]


MAX_SUGGESTIONS = 200
MAX_FUZZY = 50
MAX_NEAR = 2_000  #: Paths that are sorted.
MAX_SCATTERED = 10_000  #: Paths that are searched for the letters in order, with gaps.
MIN_FUZZY_CHARS = 2
WORDS = {
    "@file:": "a file; lines of it with :10-20",
    "@folder:": "the names in a folder",
    "@diff": "changes that are not staged",
    "@staged": "staged changes",
    "@git:": "the latest commits, 1 to 10",
    "@url:": "a web page",
}
COMMITS = (1, 3, 5, 10)
_FRAGMENT = re.compile(
    rf"""{BEFORE}@(?P<kind>file:|folder:|git:|url:)?(?P<quote>["']?)(?P<path>.*)""",
    re.IGNORECASE | re.DOTALL,
)
_AT_END = re.compile(
    rf"""{BEFORE}@(?:(?:file|folder|git|url):)?(?:"[^"\n]*|'[^'\n]*|(?!["'])(?:\\[ \t]|\S)*)\Z""",
    re.IGNORECASE,
)


class Suggestion(msgspec.Struct, frozen=True):
    text: str  #: Replaces the fragment.
    shown: str  #: The text in the menu.
    about: str  #: A short description.


class TypedReference(msgspec.Struct, frozen=True):
    """A path that is being typed."""

    start: str  #: `@`, `@file:` or `@folder:`.
    quote: str
    path: str

    def suggestion(self, path: str, *, folder: bool) -> Suggestion:
        quote = self.quote or ('"' if re.search(r"[\s`]", path) else "")
        for inside, outside in (("'", '"'), ('"', "'")):
            quote = outside if inside in path else quote
        # After a folder the user continues to type, so its quote stays open.
        end = "" if folder else quote
        mark = "/" if folder else ""
        name = path.rpartition("/")[2]
        about = "folder" if folder else "file"
        return Suggestion(f"{self.start}{quote}{path}{mark}{end}", name + mark, about)


_common_names = cache(FileNames)


def fragment_at_end(text: str) -> str:
    """Return the unfinished reference at the end of `text`, which ends at the cursor; or ""."""
    found = _AT_END.search(text)
    return found[0] if found else ""


def complete_reference(
    fragment: str, folder: Path, names: FileNames | None = None
) -> list[Suggestion]:
    """Return at most `MAX_SUGGESTIONS`. `names` defaults to the cache of the process."""
    found = _FRAGMENT.fullmatch(fragment)
    if found is None:
        return []
    kind, path = (found["kind"] or "").lower(), found["path"]
    if kind == "git:":
        numbers = (str(count) for count in COMMITS if str(count).startswith(path))
        return [Suggestion(f"@git:{each}", each, "commits") for each in numbers]
    if kind == "url:":
        return []
    typed = TypedReference(f"@{kind}", found["quote"], path.replace("\\ ", " "))
    words = [
        Suggestion(word, word, about)
        for word, about in WORDS.items()
        if not kind and not typed.quote and word.startswith(fragment.lower())
    ]
    names = names or _common_names()
    suggestions = [*words, *islice(_complete_path(typed, folder, names), MAX_SUGGESTIONS)]
    if kind != "folder:" and len(typed.path) >= MIN_FUZZY_CHARS:
        paths = _search_paths(typed.path, names.in_repository(str(folder)))
        suggestions += [
            msgspec.structs.replace(typed.suggestion(path, folder=False), shown=path)
            for path in islice(paths, MAX_FUZZY)
        ]
    return list({each.text: each for each in suggestions}.values())[:MAX_SUGGESTIONS]


def _complete_path(typed: TypedReference, folder: Path, names: FileNames) -> Iterator[Suggestion]:
    """Yield the entries of the folder typed so far."""
    head, slash, tail = typed.path.rpartition("/")
    try:
        place = Path(folder, Path(head + slash).expanduser()).resolve()
    except (RuntimeError, ValueError, OSError):  # an unknown user, a loop of links
        return
    if holds_secrets(tuple(str(place).casefold().split("/"))):
        return
    entries, start = names.in_folder(str(place)), tail.lower()
    ignoring, only_folders = IgnoreRules(str(place)), typed.start == "@folder:"
    for lowered, name, is_folder in islice(entries, bisect_left(entries, (start,)), None):
        if not lowered.startswith(start):
            return
        hidden = name == ".git" or (name.startswith(".") and not start.startswith("."))
        if hidden or (only_folders and not is_folder) or not _can_be_quoted(name):
            continue
        secret = holds_secrets((name.casefold(),))
        if not secret and not ignoring.ignores(f"{place}/{name}", is_folder=is_folder):
            yield typed.suggestion(head + slash + name, folder=is_folder)


def _can_be_quoted(path: str) -> bool:
    return path.isprintable() and not ('"' in path and "'" in path)


def _search_paths(wanted: str, paths: list[LowerPath]) -> Iterator[str]:
    """Yield paths with `wanted` in the name, then in the path, then with its letters in order, the
    closer together the earlier."""
    wanted = wanted.lower()
    near = list(islice((each for each in paths if wanted in each[0]), MAX_NEAR))
    near.sort(key=lambda each: (wanted not in each[0].rpartition("/")[2], len(each[0])))
    signs = [re.escape(char) for char in wanted]
    letters = re.compile("".join([signs[0], *(f"[^{sign}]*{sign}" for sign in signs[1:])]))
    scattered: list[tuple[bool, int, int, LowerPath]] = []
    for each in paths[:MAX_SCATTERED]:
        name = each[0].rfind("/") + 1
        found = letters.search(each[0], name) or letters.search(each[0])
        if found is not None:
            span = found.end() - found.start()
            scattered.append((found.start() < name, span, len(each[0]), each))
    scattered.sort()
    hidden = wanted.startswith(".")
    for lowered, path in chain(near, (each[-1] for each in scattered)):
        parts = tuple(lowered.split("/"))
        if (hidden or "/." not in f"/{path}") and _can_be_quoted(path) and not holds_secrets(parts):
            yield path

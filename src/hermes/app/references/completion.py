"""Completion of references such as `@file:…`, without delaying a keystroke."""

import os
import re
import subprocess
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from hermes.app.git import SAFE_OPTIONS, git_environment, git_program
from hermes.app.references.reference import BEFORE, IgnoreRules, holds_secrets
from hermes.core.errors import HermesError

AT_ONCE = 6_000  #: Entries of a folder that are read while the user waits.
MAX_NAMES = 300_000  #: Names that are kept of one folder or repository.
MAX_CACHED_FOLDERS = 16  #: Folders whose names are kept.
FRESH_SECONDS = 5.0
GIT_TIMEOUT = 10.0

T = TypeVar("T")
Entry = tuple[str, str, bool]  #: The name in small letters, the name, and whether it is a folder.
LowerPath = tuple[str, str]  #: In small letters, and as it is.


class Listing(NamedTuple):
    """What is in a folder, in order."""

    all: list[Entry]
    folders: list[Entry]


class BackgroundValue(Generic[T]):
    """A value that a thread computes, and again when it is old; `get` returns the last one."""

    def __init__(self, make: Callable[[], T], value: T) -> None:
        self._make, self._value = make, value
        self._made = -FRESH_SECONDS
        self._making = threading.Lock()

    def get(self) -> T:
        if time.monotonic() - self._made >= FRESH_SECONDS and self._making.acquire(blocking=False):
            threading.Thread(target=self._renew, name="hermes-names", daemon=True).start()
        return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
            self._made = time.monotonic()
        finally:
            self._making.release()


class FileNames:
    def __init__(self) -> None:
        self._large: dict[str, BackgroundValue[Listing]] = {}
        self._repositories: dict[str, BackgroundValue[list[LowerPath]]] = {}

    def in_folder(self, folder: str) -> Listing:
        """Return the first names of a very large folder now, and all of them a moment later."""
        if folder in self._large:
            return self._large[folder].get()
        listing, more = _listing(folder, AT_ONCE)
        if not more:
            return listing
        later = BackgroundValue(lambda: _listing(folder, MAX_NAMES)[0], listing)
        return _remember(self._large, folder, later).get()

    def in_repository(self, folder: str) -> list[LowerPath]:
        """Return the paths that git does not ignore; none until git has answered."""
        later = self._repositories.get(folder)
        if later is None:
            nothing: list[LowerPath] = []
            later = _remember(
                self._repositories, folder, BackgroundValue(lambda: _files_of(folder), nothing)
            )
        return later.get()


def _remember(
    shelf: dict[str, BackgroundValue[T]], folder: str, later: BackgroundValue[T]
) -> BackgroundValue[T]:
    if len(shelf) >= MAX_CACHED_FOLDERS:
        shelf.clear()
    shelf[folder] = later
    return later


def _listing(folder: str, most: int) -> tuple[Listing, bool]:
    try:
        with os.scandir(folder) as found:
            entries = [
                (entry.name.lower(), entry.name, _is_folder(entry)) for entry in islice(found, most)
            ]
            more = next(found, None) is not None
    except OSError:
        return Listing([], []), False
    entries.sort()
    return Listing(entries, [entry for entry in entries if entry[2]]), more


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _files_of(folder: str) -> list[LowerPath]:
    """Return nothing if it is not a repository, or git is too slow."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        done = subprocess.run(
            [git_program(), *SAFE_OPTIONS, *command],
            cwd=folder,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=GIT_TIMEOUT,
            check=False,
        )
    except (HermesError, OSError, subprocess.TimeoutExpired):
        return []
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0")[:MAX_NAMES] if name)
    return [(name.lower(), name) for name in names]


MAX_SUGGESTIONS = 200
MAX_FUZZY = 50
MAX_NEAR = 2_000  #: Paths that are put in order.
MAX_SCATTERED = 10_000  #: Names in which letters are looked for that do not stand together.
SHORTEST_FUZZY = 2
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
    text: str  #: What takes the place of the fragment.
    shown: str  #: For the menu.
    about: str  #: What it is, in a few words.


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
    """The reference that is being typed at the end of `text` (up to the cursor), or ""."""
    found = _AT_END.search(text)
    return found[0] if found else ""


def complete_reference(
    fragment: str, folder: Path, names: FileNames | None = None
) -> list[Suggestion]:
    """At most 200. `names` remembers what was found; without it, one for the process does."""
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
    suggestions = _suggestions(typed, folder, names or _common_names())
    unique = {each.text: each for each in [*words, *islice(suggestions, MAX_SUGGESTIONS)]}
    return list(unique.values())[:MAX_SUGGESTIONS]


def _suggestions(typed: TypedReference, folder: Path, names: FileNames) -> Iterator[Suggestion]:
    only_folders = typed.start == "@folder:"
    yield from _beginning_with(typed, folder, names, only_folders=only_folders)
    if not only_folders and len(typed.path) >= SHORTEST_FUZZY:
        for path in islice(_containing(typed.path, names.in_repository(str(folder))), MAX_FUZZY):
            yield msgspec.structs.replace(typed.suggestion(path, folder=False), shown=path)


def _beginning_with(
    typed: TypedReference, folder: Path, names: FileNames, *, only_folders: bool
) -> Iterator[Suggestion]:
    """Yield the entries of the folder typed so far."""
    head, slash, tail = typed.path.rpartition("/")
    try:
        place = Path(folder, Path(head + slash).expanduser()).resolve()
    except (RuntimeError, ValueError, OSError):  # an unknown user, a loop of links
        return
    if holds_secrets(tuple(str(place).casefold().split("/"))):
        return
    listing, start = names.in_folder(str(place)), tail.lower()
    entries = listing.folders if only_folders else listing.all
    ignoring = IgnoreRules(str(place))
    for position in range(bisect_left(entries, (start,)), len(entries)):
        lowered, name, is_folder = entries[position]
        if not lowered.startswith(start):
            return
        if not _unwanted(name, tail) and not ignoring.ignores(
            f"{place}/{name}", is_folder=is_folder
        ):
            yield typed.suggestion(head + slash + name, folder=is_folder)


def _unwanted(name: str, typed: str) -> bool:
    """Return True for names that are hidden, blocked, or cannot be typed."""
    if name.startswith(".") and not typed.startswith("."):
        return True
    return name == ".git" or not _typeable(name) or holds_secrets((name.casefold(),))


def _typeable(path: str) -> bool:
    """A path with quotes of both kinds cannot be quoted."""
    return path.isprintable() and not ('"' in path and "'" in path)


def _containing(wanted: str, paths: list[LowerPath]) -> Iterator[str]:
    """Paths of the repository with `wanted` in the name, in the path, or its letters in order."""
    wanted = wanted.lower()
    near = list(islice((each for each in paths if wanted in each[0]), MAX_NEAR))
    near.sort(key=lambda each: (wanted not in each[0].rpartition("/")[2], len(each[0])))
    letters = re.compile("".join(f"[^{re.escape(char)}]*{re.escape(char)}" for char in wanted))
    scattered = (
        each for each in paths[:MAX_SCATTERED] if letters.match(each[0], each[0].rfind("/") + 1)
    )
    hidden = wanted.startswith(".")
    for lowered, path in chain(near, scattered if "/" not in wanted else ()):
        parts = tuple(lowered.split("/"))
        if (hidden or "/." not in f"/{path}") and _typeable(path) and not holds_secrets(parts):
            yield path

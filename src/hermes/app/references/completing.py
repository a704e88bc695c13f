"""What can follow while a reference is being typed."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path

import msgspec

from hermes.app.references.ignoring import Ignoring
from hermes.app.references.names import LowerPath, Names
from hermes.app.references.places import holds_secrets
from hermes.app.references.written import BEFORE

MOST = 200
MOST_FUZZY = 50
MOST_NEAR = 2_000
"""Paths that are put in order."""
MOST_SCATTERED = 10_000
"""Names in which letters are looked for that do not stand together."""
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
    text: str
    """What takes the place of the fragment."""
    shown: str
    """For the menu."""
    about: str
    """What it is, in a few words."""


class Typed(msgspec.Struct, frozen=True):
    """A path that is being typed."""

    start: str
    """`@`, `@file:` or `@folder:`."""
    quote: str
    path: str

    def suggestion(self, path: str, *, folder: bool) -> Suggestion:
        quote = self.quote or ('"' if re.search(r"[\s`]", path) else "")
        for inside, outside in (("'", '"'), ('"', "'")):
            quote = outside if inside in path else quote
        # Whoever takes a folder goes on typing, so its quote stays open.
        end = "" if folder else quote
        mark = "/" if folder else ""
        name = path.rpartition("/")[2]
        about = "folder" if folder else "file"
        return Suggestion(f"{self.start}{quote}{path}{mark}{end}", name + mark, about)


@cache
def _names() -> Names:
    return Names()


def fragment_at_end(text: str) -> str:
    """The reference that is being typed at the end of `text` (up to the cursor), or ""."""
    found = _AT_END.search(text)
    return found[0] if found else ""


def complete(fragment: str, folder: Path, names: Names | None = None) -> list[Suggestion]:
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
    typed = Typed(f"@{kind}", found["quote"], path.replace("\\ ", " "))
    words = [] if kind or typed.quote else list(_words(fragment))
    suggestions = _suggestions(typed, folder, names or _names())
    unique = {each.text: each for each in [*words, *islice(suggestions, MOST)]}
    return list(unique.values())[:MOST]


def _words(fragment: str) -> Iterator[Suggestion]:
    for word, about in WORDS.items():
        if word.startswith(fragment.lower()):
            yield Suggestion(word, word, about)


def _suggestions(typed: Typed, folder: Path, names: Names) -> Iterator[Suggestion]:
    only_folders = typed.start == "@folder:"
    yield from _beginning_with(typed, folder, names, only_folders=only_folders)
    if not only_folders and len(typed.path) >= SHORTEST_FUZZY:
        for path in islice(_containing(typed.path, names.in_repository(str(folder))), MOST_FUZZY):
            yield msgspec.structs.replace(typed.suggestion(path, folder=False), shown=path)


def _beginning_with(
    typed: Typed, folder: Path, names: Names, *, only_folders: bool
) -> Iterator[Suggestion]:
    """What is in the folder that was typed so far."""
    head, slash, tail = typed.path.rpartition("/")
    try:
        place = Path(folder, Path(head + slash).expanduser()).resolve()
    except (RuntimeError, ValueError, OSError):  # a home of nobody, a loop of links
        return
    if holds_secrets(tuple(str(place).casefold().split("/"))):
        return
    listing, start = names.in_folder(str(place)), tail.lower()
    entries = listing.folders if only_folders else listing.all
    ignoring = Ignoring(str(place))
    for position in range(bisect_left(entries, (start,)), len(entries)):
        lowered, name, is_folder = entries[position]
        if not lowered.startswith(start):
            return
        if not _unwanted(name, tail) and not ignoring.ignores(
            f"{place}/{name}", is_folder=is_folder
        ):
            yield typed.suggestion(head + slash + name, folder=is_folder)


def _unwanted(name: str, typed: str) -> bool:
    """Hidden and not asked for, blocked, or not to be typed at all."""
    if name.startswith(".") and not typed.startswith("."):
        return True
    return name == ".git" or not _typeable(name) or holds_secrets((name.casefold(),))


def _typeable(path: str) -> bool:
    """What has quotes of both kinds cannot be quoted."""
    return path.isprintable() and not ('"' in path and "'" in path)


def _containing(wanted: str, paths: list[LowerPath]) -> Iterator[str]:
    """Paths of the repository with `wanted` in the name, in the path, or its letters in order."""
    wanted = wanted.lower()
    near = list(islice((each for each in paths if wanted in each[0]), MOST_NEAR))
    near.sort(key=lambda each: (wanted not in each[0].rpartition("/")[2], len(each[0])))
    letters = re.compile("".join(f"[^{re.escape(char)}]*{re.escape(char)}" for char in wanted))
    scattered = (each for each in paths[:MOST_SCATTERED] if letters.match(each[0], _name_at(each)))
    hidden = wanted.startswith(".")
    for lowered, path in chain(near, scattered if "/" not in wanted else ()):
        parts = tuple(lowered.split("/"))
        if (hidden or "/." not in f"/{path}") and _typeable(path) and not holds_secrets(parts):
            yield path


def _name_at(path: LowerPath) -> int:
    return path[0].rfind("/") + 1

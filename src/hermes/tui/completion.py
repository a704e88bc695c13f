"""What may follow while something is being typed: commands, what stands behind them, and files."""

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.app.commands import Surface, commands_in, resolve_command
from hermes.app.references.completion import Suggestion, fragment_at_end
from hermes.tui.text import one_line
from hermes.util.threads import in_thread

# Things to choose from by name, and which of them a few letters mean.

MOST = 50
_BETWEEN = re.compile(r"[\W_]+")
_NAME = re.compile(r"[\w -]*")
NEVER = "\0"
"""Stands in no name."""


class Offer(msgspec.Struct, frozen=True):
    name: str
    about: str = ""
    aliases: tuple[str, ...] = ()
    """Other names; one is offered when its beginning is typed and that of the name is not."""
    takes_more: bool = False
    """Something may stand behind it."""
    words: tuple[str, ...] = ()
    """First words behind it."""


class Match(msgspec.Struct, frozen=True):
    name: str
    """Or the alias."""
    offer: Offer


class _Prepared(msgspec.Struct, frozen=True):
    offer: Offer
    lowered: str
    words: str
    """In small letters, with `-` before each."""
    aliases: tuple[tuple[str, str], ...]
    """In small letters and as they are."""


class Shelf:
    """Offers, prepared for looking into them at every key."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = tuple(offers)
        self._prepared = [
            _Prepared(
                each,
                each.name.lower(),
                _words(each.name),
                tuple((a.lower(), a) for a in each.aliases),
            )
            for each in offers
        ]

    def find(self, typed: str, most: int = MOST) -> list[Match]:
        """Exact names first, then beginnings, beginnings of words inside, parts, and letters in
        order; inside of each in the order of the offers."""
        typed = typed.lower()
        ranks: tuple[list[Match], ...] = ([], [], [], [], [], [])
        words = _words(typed) if _NAME.fullmatch(typed) else NEVER
        letters = _scattered(typed)
        for each in self._prepared:
            rank, name = _rank(each, typed, words, letters)
            if rank is not None:
                ranks[rank].append(Match(name, each.offer))
        ranks[-1].sort(key=lambda match: len(match.name))
        return [match for rank in ranks for match in rank][:most]


def _rank(
    offer: _Prepared, typed: str, words: str, letters: re.Pattern[str]
) -> tuple[int | None, str]:
    name = offer.offer.name
    if offer.lowered.startswith(typed):
        return (0 if offer.lowered == typed else 1), name
    for lowered, alias in offer.aliases:
        if lowered.startswith(typed):
            return (0 if lowered == typed else 2), alias
    if words in offer.words:
        return 3, name
    if typed in offer.lowered:
        return 4, name
    return (5 if letters.match(offer.lowered) else None), name


def _words(text: str) -> str:
    return "-" + _BETWEEN.sub("-", text.lower())


def _scattered(typed: str) -> re.Pattern[str]:
    return re.compile("".join(f"[^{re.escape(each)}]*{re.escape(each)}" for each in typed))


def unique(offers: Sequence[Offer]) -> Iterator[Offer]:
    """The first of those that share a name."""
    seen: set[str] = set()
    for each in offers:
        if each.name not in seen:
            seen.add(each.name)
            yield each


# Lists that may take their time to be made, for a menu that may not.

PATIENCE = 0.05
"""Seconds that a list is waited for when there is no older one."""
FRESH = 5.0
"""Seconds after which it is asked for again."""

MOST_KNOWN = 64
"""Lists that are kept."""

Source = Callable[[], Sequence[Offer]]
"""Called in a thread."""

_log = logging.getLogger(__name__)


class _Known(msgspec.Struct, frozen=True):
    shelf: Shelf
    at: float


class Answers:
    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.patience = PATIENCE
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._given_up: set[str] = set()
        self.news: Callable[[], None] = lambda: None
        """Called when a list has come that nobody waits for any more."""

    async def of(self, name: str, source: Source) -> Shelf:
        """What is known, at once; while it is old a new list is on its way."""
        known = self._known.get(name)
        if known is not None and self._now() - known.at < FRESH:
            return known.shelf
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._ask(name, source))
        if known is None:
            await asyncio.wait((task,), timeout=self.patience)
            known = self._known.get(name)
        if not task.done():
            self._given_up.add(name)
        return known.shelf if known else Shelf(())

    async def _ask(self, name: str, source: Source) -> None:
        before = self._known.get(name)
        shelf = await in_thread(_shelf, name, source, before.shelf if before else Shelf(()))
        self._known[name] = _Known(shelf, self._now())
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        del self._asked[name]
        if name in self._given_up:
            self._given_up.discard(name)
            if before is None or shelf is not before.shelf:
                self.news()


def _shelf(name: str, source: Source, before: Shelf) -> Shelf:
    """The one of before when nothing has changed."""
    try:
        offers = tuple(source())
    except Exception as error:  # noqa: BLE001 - a list that fails costs its entries in the menu
        _log.warning("no completions for %s: %s", name or "commands", error)
        return before
    return before if offers == before.offers else Shelf(offers)


# Paths of pictures, while one is being typed.

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MOST_ENTRIES = 5_000
"""Of a folder that are looked at."""


def pictures_in(place: str, folder: Path) -> list[Offer]:
    """Folders and pictures in `place`, which is relative to `folder`, ends with `/` unless it is
    empty, and stands before each of them. Hidden ones are left out."""
    try:
        with os.scandir(folder / Path(place).expanduser()) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, MOST_ENTRIES)
                if (entry.name.lower().endswith(SUFFIXES) or entry.is_dir())
                and not entry.name.startswith(".")
                and entry.name.isprintable()
            ]
    except (OSError, RuntimeError, ValueError):  # no such folder, the home of nobody
        return []
    return [Offer(f"{place}{name}{'' if file else '/'}") for file, name in sorted(found)]


References = Callable[[str], Sequence[Suggestion]]
"""What can take the place of a fragment such as `@src/ma`; quick, because it is asked at every
key."""
COLUMNS = 60
"""Of a name or a remark in the menu."""


class EntryCompleter(Completer):
    """`more` are commands beside the built-in ones: quick commands, plugins, skills. `arguments`
    are what may stand behind a command, by its name, or by its name and first word (`tools
    enable`). Both are asked in threads, and again when they are some seconds old."""

    def __init__(
        self,
        *,
        folder: Path,
        references: References,
        more: Source = tuple,
        arguments: Mapping[str, Source] | None = None,
    ) -> None:
        self._folder, self._references, self._more = folder, references, more
        self._arguments: dict[str, Source] = {**(arguments or {})}
        self.answers = Answers()
        self._builtin = [
            Offer(
                each.name,
                each.summary,
                each.aliases,
                takes_more=bool(each.usage),
                words=each.words,
            )
            for each in commands_in(Surface.TERMINAL)
        ]
        self._commands = Shelf(self._builtin)
        self._added: Shelf | None = None

    def wants(self, document: Document) -> bool:
        """Whether there may be something to offer for what stands before the cursor."""
        line = document.current_line_before_cursor
        return self._is_command(document) or ("@" in line and bool(fragment_at_end(line)))

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        raise NotImplementedError("completions come from an event loop")

    async def get_completions_async(
        self, document: Document, _event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        line = document.current_line_before_cursor
        if fragment := fragment_at_end(line):
            for each in self._referred(fragment):
                yield each
        elif self._is_command(document):
            for each in await self._of_command(line):
                yield each

    def _is_command(self, document: Document) -> bool:
        return document.text_before_cursor.startswith("/") and document.on_first_line

    def _referred(self, fragment: str) -> Iterator[Completion]:
        for each in self._references(fragment)[:MOST]:
            yield Completion(
                each.text,
                -len(fragment),
                display=one_line(each.shown, COLUMNS),
                display_meta=one_line(each.about, COLUMNS),
            )

    async def _of_command(self, line: str) -> list[Completion]:
        word, blank, rest = line[1:].partition(" ")
        shelf = await self._all_commands()
        if not blank:
            return [_command(match, word) for match in shelf.find(word)]
        return await self._behind(word, rest.lstrip(), shelf)

    async def _all_commands(self) -> Shelf:
        added = await self.answers.of("", self._more)
        if added is not self._added:
            self._added = added
            self._commands = Shelf(list(unique([*self._builtin, *added.offers])))
        return self._commands

    async def _behind(self, word: str, rest: str, commands: Shelf) -> list[Completion]:
        """What may stand behind a command."""
        wanted = word.lower()
        offer = next((each for each in commands.offers if wanted in _names(each)), None)
        found = resolve_command(word)
        name = offer.name if offer else (found.name if found else "")
        words = offer.words if offer else (found.words if found else ())
        if name == "image":
            place = rest.rpartition("/")[0] + "/" if "/" in rest else ""
            source = partial(pictures_in, place, self._folder)
            shelf = await self.answers.of(f"image {place}", source)
            return [_argument(match, rest) for match in shelf.find(rest)]
        first, blank, further = rest.partition(" ")
        if blank and (further_source := self._arguments.get(f"{name} {first}")):
            shelf = await self.answers.of(f"{name} {first}", further_source)
            return [_argument(match, further) for match in shelf.find(further)]
        matches = [] if blank else Shelf([Offer(each) for each in words]).find(rest)
        if more := self._arguments.get(name):
            matches += (await self.answers.of(name, more)).find(rest)
        elif name == "help" and not blank:
            matches += commands.find(rest)
        return [_argument(match, rest) for match in matches[:MOST]]


def _names(offer: Offer) -> tuple[str, ...]:
    return tuple(each.lower() for each in (offer.name, *offer.aliases))


def _command(match: Match, typed: str) -> Completion:
    return _completion(match, f"/{match.name}", f"/{typed}")


def _argument(match: Match, typed: str) -> Completion:
    return _completion(match, match.name, typed)


def _completion(match: Match, text: str, typed: str) -> Completion:
    offer, command = match.offer, text != match.name
    about = offer.about
    if match.name != offer.name:
        about = f"{'/' if command else ''}{offer.name}: {about}".removesuffix(": ")
    return Completion(
        f"{text} " if command and offer.takes_more else text,
        -len(typed),
        display=one_line(text, COLUMNS),
        display_meta=one_line(about, COLUMNS),
    )

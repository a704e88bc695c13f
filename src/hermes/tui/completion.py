"""The completion menu: slash commands, their arguments, references and image files."""

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.app import Suggestion, Surface, commands_in, fragment_at_end, resolve_command
from hermes.tui.text import one_line
from hermes.util.concurrency import in_thread

MAX_OFFERS = 50
_BETWEEN = re.compile(r"[\W_]+")
_NAME = re.compile(r"[\w -]*")
NO_MATCH = "\0"  #: Occurs in no name.


class Offer(msgspec.Struct, frozen=True):
    name: str
    about: str = ""
    aliases: tuple[str, ...] = ()
    """Other names. One is offered if it starts with the typed text and the name does not."""
    takes_more: bool = False  #: The command takes arguments.
    words: tuple[str, ...] = ()  #: Possible first arguments.


class OfferMatch(NamedTuple):
    name: str  #: The name or the alias that matches.
    offer: Offer


class OfferIndex:
    """Offers, prepared for a search at each key press."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self.offers = tuple(offers)
        self._prepared = [(each, each.name.lower(), _word_starts(each.name)) for each in offers]

    def find(self, typed: str, most: int = MAX_OFFERS) -> list[OfferMatch]:
        """Return the matches: exact names first, then prefixes, prefixes of words, substrings, and
        letters in order; within each group in the order of the offers."""
        typed = typed.lower()
        ranks: tuple[list[OfferMatch], ...] = ([], [], [], [], [], [])
        words = _word_starts(typed) if _NAME.fullmatch(typed) else NO_MATCH
        letters = re.compile("".join(f"[^{re.escape(each)}]*{re.escape(each)}" for each in typed))
        for offer, lowered, starts in self._prepared:
            name = offer.name
            if lowered.startswith(typed):
                rank = 0 if lowered == typed else 1
            elif alias := next((a for a in offer.aliases if a.lower().startswith(typed)), ""):
                rank, name = (0 if alias.lower() == typed else 2), alias
            elif words in starts or typed in lowered:
                rank = 3 if words in starts else 4
            elif letters.match(lowered):
                rank = 5
            else:
                continue
            ranks[rank].append(OfferMatch(name, offer))
        ranks[-1].sort(key=lambda match: len(match.name))
        return [match for rank in ranks for match in rank][:most]


def _word_starts(text: str) -> str:
    return "-" + _BETWEEN.sub("-", text.lower())


FRESH_SECONDS = 5.0  #: Seconds after which offers are loaded again.
Source = Callable[[], Sequence[Offer]]  #: Loads offers. Called in a worker thread.

_log = logging.getLogger(__name__)


class OfferCache:
    """Caches lists of offers that are slow to load, because the menu must not wait."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.wait_seconds = 0.05  #: Seconds to wait for offers when there are no older ones.
        self._cached: dict[str, tuple[OfferIndex, float]] = {}  #: And when they were loaded.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._late: set[str] = set()
        self.on_update: Callable[[], None] = lambda: None
        """Called when offers arrive after the menu stopped waiting for them."""

    async def get(self, name: str, source: Source) -> OfferIndex:
        """Return the cached offers; if they are old, load new ones in the background."""
        cached = self._cached.get(name)
        if cached is not None and self._now() - cached[1] < FRESH_SECONDS:
            return cached[0]
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._load(name, source))
        if cached is None:
            await asyncio.wait((task,), timeout=self.wait_seconds)
            cached = self._cached.get(name)
        if not task.done():
            self._late.add(name)
        return cached[0] if cached else OfferIndex(())

    async def _load(self, name: str, source: Source) -> None:
        before = self._cached.get(name, (OfferIndex(()), 0.0))[0]

        def build() -> OfferIndex:
            try:
                offers = tuple(source())
            except Exception as error:  # noqa: BLE001 - a list that fails costs its entries
                _log.warning("no completions for %s: %s", name or "commands", error)
                return before
            return before if offers == before.offers else OfferIndex(offers)

        index, is_first = await in_thread(build), name not in self._cached
        self._cached[name] = (index, self._now())
        if len(self._cached) > 64:
            del self._cached[next(iter(self._cached))]
        del self._tasks[name]
        if name in self._late:
            self._late.discard(name)
            if is_first or index is not before:
                self.on_update()


IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def image_offers(place: str, folder: Path) -> list[Offer]:
    """Return the folders and images in `place`, with `place` before each name.

    `place` is relative to `folder` and ends with `/` unless it is empty. Hidden entries are left
    out.
    """
    try:
        with os.scandir(folder / Path(place).expanduser()) as entries:
            found = [
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, 5_000)
                if (entry.name.lower().endswith(IMAGE_SUFFIXES) or entry.is_dir())
                and not entry.name.startswith(".")
                and entry.name.isprintable()
            ]
    except (OSError, RuntimeError, ValueError):  # no such folder, or `~` of an unknown user
        return []
    return [Offer(f"{place}{name}{'' if file else '/'}") for file, name in sorted(found)]


References = Callable[[str], Sequence[Suggestion]]
"""Returns the completions of a fragment such as `@src/ma`. Called at each key press."""
MAX_COLUMNS = 60  #: Columns of a name or description in the menu.


class InputCompleter(Completer):
    """Completes slash commands, their arguments and references.

    `more` loads commands of the user, of plugins and skills. `arguments` load the arguments of a
    command, by its name or by its name and first word (`tools enable`). Both are called in worker
    threads, and again when their offers are some seconds old.
    """

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
        self.offers = OfferCache()
        self._builtin = [
            Offer(each.name, each.summary, each.aliases, bool(each.usage), each.words)
            for each in commands_in(Surface.TERMINAL)
        ]
        self._commands = OfferIndex(self._builtin)
        self._added: OfferIndex | None = None

    def wants(self, document: Document) -> bool:
        line = document.current_line_before_cursor
        return self._is_command(document) or ("@" in line and bool(fragment_at_end(line)))

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        raise NotImplementedError("completions come from an event loop")

    async def get_completions_async(
        self, document: Document, _event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        line = document.current_line_before_cursor
        if fragment := fragment_at_end(line):
            for each in self._references(fragment)[:MAX_OFFERS]:
                yield Completion(
                    each.text,
                    -len(fragment),
                    display=one_line(each.shown, MAX_COLUMNS),
                    display_meta=one_line(each.about, MAX_COLUMNS),
                )
        elif self._is_command(document):
            word, blank, rest = line[1:].partition(" ")
            index = await self._all_commands()
            matches = [_completion(match, word, "/") for match in index.find(word)]
            found = await self._complete_argument(word, rest.lstrip(), index) if blank else matches
            for completion in found:
                yield completion

    def _is_command(self, document: Document) -> bool:
        return document.text_before_cursor.startswith("/") and document.on_first_line

    async def _all_commands(self) -> OfferIndex:
        added = await self.offers.get("", self._more)
        if added is not self._added:
            self._added = added
            unique: dict[str, Offer] = {}
            for offer in (*self._builtin, *added.offers):
                unique.setdefault(offer.name, offer)
            self._commands = OfferIndex(list(unique.values()))
        return self._commands

    async def _complete_argument(
        self, word: str, rest: str, commands: OfferIndex
    ) -> list[Completion]:
        wanted = word.lower()
        names = ((each, map(str.lower, (each.name, *each.aliases))) for each in commands.offers)
        offer = next((each for each, lowered in names if wanted in lowered), None)
        found = resolve_command(word)
        name = offer.name if offer else (found.name if found else "")
        words = offer.words if offer else (found.words if found else ())
        if name == "image":
            place = rest.rpartition("/")[0] + "/" if "/" in rest else ""
            source = partial(image_offers, place, self._folder)
            index = await self.offers.get(f"image {place}", source)
            return [_completion(match, rest) for match in index.find(rest)]
        first, blank, further = rest.partition(" ")
        if blank and (further_source := self._arguments.get(f"{name} {first}")):
            index = await self.offers.get(f"{name} {first}", further_source)
            return [_completion(match, further) for match in index.find(further)]
        matches = [] if blank else OfferIndex([Offer(each) for each in words]).find(rest)
        if more := self._arguments.get(name):
            matches += (await self.offers.get(name, more)).find(rest)
        elif name == "help" and not blank:
            matches += commands.find(rest)
        return [_completion(match, rest) for match in matches[:MAX_OFFERS]]


def _completion(match: OfferMatch, typed: str, slash: str = "") -> Completion:
    """`slash` is "/" for a command and "" for an argument."""
    offer, about, text = match.offer, match.offer.about, f"{slash}{match.name}"
    if match.name != offer.name:
        about = f"{slash}{offer.name}: {about}".removesuffix(": ")
    return Completion(
        f"{text} " if slash and offer.takes_more else text,
        -len(f"{slash}{typed}"),
        display=one_line(text, MAX_COLUMNS),
        display_meta=one_line(about, MAX_COLUMNS),
    )

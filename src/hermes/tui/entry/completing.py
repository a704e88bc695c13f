"""What may follow while something is being typed: commands, what stands behind them, and files."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.app.commands.registry import Where, commands_in, resolve_command
from hermes.app.references.completing import Suggestion, fragment_at_end
from hermes.tui.cells import one_line
from hermes.tui.entry.answers import Answers, Source
from hermes.tui.entry.offers import MOST, Match, Offer, Shelf, unique
from hermes.tui.entry.picture_paths import pictures_in

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
            for each in commands_in(Where.TERMINAL)
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

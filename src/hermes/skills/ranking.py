"""Which skills are worth a line in the prompt when there is no room for all."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, zip_longest

from hermes.skills.shelf import Shelf
from hermes.skills.skill import Source
from hermes.skills.usage import Use
from hermes.skills.words import telling

DAY = 86_400
DAYS, RECENT = (1, 7, 30, 90), (10, 8, 5, 2, 0)
"""Points for a last use within so many days; the last are for one before."""
MOST_USE = 10
"""Points for frequent use grow with the logarithm, up to here."""
IN_NAME, IN_TEXT, MOST_SHARED = 6, 3, 24
"""Points for a word that the skill shares with the work at hand."""
ORIGIN = {Source.USER: 2, Source.HUB: 1, Source.EXTERNAL: 1, Source.PLUGIN: 1, Source.BUNDLED: 0}
"""Points for who it is from: with all else equal, the user's own come first."""


def ranked(
    shelf: Shelf, uses: Mapping[str, Use], now: float, hints: Iterable[str]
) -> Iterator[int]:
    """The numbers of all skills, the most useful first.

    Those that are used or fit the work come by their points, the others after them by their
    origin, where the categories take turns: so each is represented.
    """
    points = fitting(shelf, hints)
    for name, use in uses.items():
        number = shelf.numbers.get(name)
        if number is not None and use.count:
            points[number] = points.get(number, 0) + used(use, now)
    origins: list[int] = []
    for run in shelf.runs:
        origins += [ORIGIN[shelf.sources[run.root]]] * len(run.numbers)
    order = sorted(points)
    order.sort(key=lambda number: points[number] + origins[number], reverse=True)
    yield from order
    yield from (number for number in _in_turn(shelf) if number not in points)


def fitting(shelf: Shelf, hints: Iterable[str]) -> dict[int, int]:
    """Points of the skills that share words with the names of files and folders in `hints`."""
    points: dict[int, int] = {}
    for named, other in shelf.telling(telling(hints)):
        for number in named:
            points[number] = points.get(number, 0) + IN_NAME
        for number in other:
            points[number] = points.get(number, 0) + IN_TEXT
    return {number: min(MOST_SHARED, shared) for number, shared in points.items()}


def used(use: Use, now: float) -> int:
    """Days are counted whole, so that a prompt built twice in a row is the same."""
    recent = RECENT[bisect_right(DAYS, (now - use.last) // DAY)]
    return recent + min(MOST_USE, 2 * use.count.bit_length())


def _in_turn(shelf: Shelf) -> Iterator[int]:
    runs = sorted(shelf.runs, key=lambda run: -ORIGIN[shelf.sources[run.root]])
    for _, same in groupby(runs, key=lambda run: ORIGIN[shelf.sources[run.root]]):
        for turn in zip_longest(*(run.numbers for run in same)):
            yield from (number for number in turn if number is not None)

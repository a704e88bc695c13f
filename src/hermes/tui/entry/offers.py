"""Things to choose from by name, and which of them a few letters mean."""

import re
from collections.abc import Iterator, Sequence

import msgspec

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

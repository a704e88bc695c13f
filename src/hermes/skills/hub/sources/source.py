"""What every source of skills can do, and what it hands over."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.skills.hub.errors import UNREADABLE
from hermes.util.text import many

T = TypeVar("T")

Warn = Callable[[str], None]
"""Told what is wrong somewhere else, but stops nobody."""


class Offer(msgspec.Struct, frozen=True):
    """A skill that can be had."""

    source: str
    identifier: str
    """What `install` takes."""
    name: str
    description: str = ""
    installs: int = 0
    """How often others installed it, where the source counts."""


class Origin(msgspec.Struct, frozen=True):
    """Where exactly the files came from."""

    version: str = ""
    """Commit, tag of the answer, or hash; "" where a place has none."""
    address: str = ""
    """For a person."""


class Fetched(msgspec.Struct, frozen=True):
    files: dict[str, bytes]
    origin: Origin
    place: str = ""
    """Where trust comes from: the `owner/repo` at GitHub whose default branch it was, or
    `official`; "" when the place proves nothing."""
    category: str = ""
    """What the source files it under."""
    identifier: str = ""
    """The identifier in full, when what was asked for was short; "" when it was not."""


class HubSource(Protocol):
    @property
    def name(self) -> str:
        """As `--source` takes it."""

    async def browse(self) -> Sequence[Offer]:
        """Everything it has. Raises `HubError` where that cannot be known."""

    async def search(self, query: str) -> Sequence[Offer]:
        """What fits the words."""

    async def fetch(self, identifier: str) -> Fetched:
        """The files, not yet looked at. Raises `HubError`."""

    async def version(self, identifier: str) -> str:
        """What `Origin.version` would be now, cheaply; "" when only fetching tells."""


def matching(offers: Iterable[Offer], query: str) -> list[Offer]:
    """Those that hold every word, the ones with a word in their name first."""
    words = query.lower().split()

    def text(offer: Offer) -> str:
        return f"{offer.name} {offer.identifier} {offer.description}".lower()

    found = [offer for offer in offers if all(word in text(offer) for word in words)]
    named = {id(offer) for offer in found if any(word in offer.name.lower() for word in words)}
    return sorted(found, key=lambda offer: id(offer) not in named)


def understood(entries: Sequence[msgspec.Raw], kind: type[T], where: str, warn: Warn) -> list[T]:
    """The entries of a list without those that are not a `kind`: one must not hide the others."""
    found: list[T] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(msgspec.json.decode(entry, type=kind))
        except UNREADABLE as error:
            problems.append(f"number {number}: {error}")
    if problems:
        warn(f"{where}: {many(len(problems), 'skill')} left out, as not understood; {problems[0]}")
    return found


class Partly(msgspec.Struct, frozen=True):
    """Offers of several sources, and what went wrong at others."""

    offers: tuple[Offer, ...]
    problems: tuple[str, ...] = ()


def problem_of(source: str, error: HermesError) -> str:
    return f"{source}: {error}" + (f" ({error.hint})" if error.hint else "")

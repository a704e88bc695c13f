"""One remembered fact."""

from datetime import UTC, datetime

import msgspec

from hermes.memory.holographic import trust

SAID, TOOL, NOTES = "said", "tool", "notes:"
"""Where facts come from: the user's words, the model's tool, the built-in notes of some target."""

LONGEST_ID = 18
"""Digits; SQLite takes no larger numbers."""

COLUMNS = (
    "facts.id, text, terms, source, session, trust, created, confirmed, used, uses,"
    " coalesce(replaced_by, 0)"
)


class Fact(msgspec.Struct, frozen=True):
    """In the order of `COLUMNS`."""

    id: int
    text: str
    terms: str
    source: str
    session: str
    trust: float
    created: float
    confirmed: float
    used: float
    uses: int
    replaced_by: int
    """The fact that counts instead; 0: none."""

    def weight(self, now: float) -> float:
        return trust.weight(self.trust, max(self.confirmed, self.used), self.uses, now)

    def told(self) -> str:
        """As a model is shown it: when it was last said matters as much as what."""
        words = f'user said: "{self.text}"' if self.source == SAID else self.text
        return f"{words} ({day(self.confirmed)})"


def id_in(text: str) -> int | None:
    """The id that `text` is; None when it is none."""
    number = int(text) if text.isdecimal() and len(text) <= LONGEST_ID else 0
    return number or None


def day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()

"""What an endpoint said about a failure, whatever the shape it came in."""

import msgspec

SEARCHED = 4000
"""So many characters of the text are looked at by the rules."""


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    message: str = ""
    """Its own words: those of the model's host rather than those of a relay. Not yet cleaned."""
    marks: frozenset[str] = frozenset()
    """Every type, code, status and reason it gave, in lower case."""
    text: str = ""
    """All messages, parameters and marks together, for rules that go by wording."""
    status: int | None = None
    """The HTTP status that is written inside the body."""
    waits: dict[str, str] = {}
    """Values that say when to come back, under their lower-case names."""
    headers: dict[str, str] = {}
    """Headers that a relay passed on inside the body, with lower-case names."""
    page: bool = False
    """It is a web page: no model endpoint answered, but something in front of it."""

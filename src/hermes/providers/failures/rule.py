"""One line of the tables that tell failures apart."""

import re
from collections.abc import Collection

import msgspec

from hermes.core.errors import ProviderError
from hermes.providers.failures.complaint import Complaint


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A failure is `then` when the provider and the status fit, and a mark or the words do."""

    then: type[ProviderError]
    providers: tuple[str, ...] = ()
    """Provider ids; `minimax` is `minimax-cn` too. Empty: any."""
    statuses: Collection[int] = ()
    """HTTP statuses. Empty: any, and also a failure inside an answer, which has none."""
    marks: frozenset[str] = frozenset()
    """Types, codes and reasons in lower case; one is enough."""
    words: re.Pattern[str] | None = None
    """Looked for in all the text; its named groups fill the hint."""
    page: bool = False
    """Only where a web page came instead of an answer."""
    says: str = ""
    """What happened, in plain words; empty: those of the class."""
    hint: str = ""
    """What to do next; empty: that of the class."""

    def matches(self, provider: str, status: int | None, complaint: Complaint) -> bool:
        if self.providers and not any(_is_of(provider, name) for name in self.providers):
            return False
        if self.page and not complaint.page:
            return False
        by_content = bool(self.marks or self.words)
        if self.statuses and status not in self.statuses and (status or not by_content):
            return False
        if not by_content:
            return True
        return bool(self.marks & complaint.marks) or self.found(complaint) is not None

    def found(self, complaint: Complaint) -> re.Match[str] | None:
        return self.words.search(complaint.text) if self.words else None


def words(*alternatives: str) -> re.Pattern[str]:
    """Any of these expressions, whatever the case."""
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


def marks(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _is_of(provider: str, name: str) -> bool:
    return provider == name or provider.startswith(f"{name}-")

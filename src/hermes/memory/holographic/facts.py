"""Keeping facts: without repeating them, with the newer of two that contradict each other."""

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from hermes.core.errors import ToolArgumentsInvalid
from hermes.memory.holographic import trust
from hermes.memory.holographic.claims import Claim, claim_in
from hermes.memory.holographic.entities import entities
from hermes.memory.holographic.fact import Fact
from hermes.memory.holographic.matching import matches
from hermes.memory.holographic.table import Table
from hermes.memory.holographic.words import folded, telling
from hermes.store.sqlite.faults import patiently
from hermes.store.sqlite.transaction import transaction
from hermes.util.text import clean

MOST_CHARS = 2000
MOST_FACTS = 5000
"""Of one user; beyond it those that count least go."""
SAME = 0.85
"""Share of words two facts have in common from which they are one."""

_NEGATIONS = frozenset({"not", "no", "never", "without", "don't", "doesn't", "isn't", "can't"})


class Added(msgspec.Struct, frozen=True):
    fact: Fact
    outcome: Literal["added", "confirmed"]
    replaced: tuple[Fact, ...] = ()
    """What counted before and does not any more."""


class Facts:
    """What may be done to a table of facts. Each change is all or nothing."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def add(self, text: str, *, source: str, session: str, level: float) -> Added:
        """Keep a fact, or confirm the one that says the same. `level` is its trust at first."""
        tidy = tidied(text)

        def work() -> Added:
            with transaction(self.table.connection):
                self._mark_considered(tidy)
                return self._add(tidy, source, session, level)

        return patiently(work)

    def consider(self, text: str, *, source: str, session: str, level: float) -> bool:
        """Add what is read in an older message, unless it was added before: it may have been
        replaced or forgotten since."""
        rows = self.table.query(
            "SELECT 1 FROM seen WHERE user = ? AND print = ?", self.table.user, _print(text)
        )
        if not rows:
            self.add(text, source=source, session=session, level=level)
        return not rows

    def update(self, fact_id: int, text: str) -> Fact | None:
        """Put `text` in its place; None when there is no such fact. If another fact says that
        already, the two become one."""
        tidy = tidied(text)

        def work() -> Fact | None:
            with transaction(self.table.connection):
                old, twin = self.table.get(fact_id), self.table.same(tidy)
                if old is None:
                    return None
                if twin is not None and twin.id != old.id:
                    self.table.remove(old.id)
                    return self._confirm(twin, twin.session, 0.0, claim_in(tidy)).fact
                self.table.rewrite(old.id, tidy)
                self.table.change(old.id, confirmed=self.table.now())
                self._outdate(claim_in(tidy), old.id)
                return self.table.sure(old.id)

        return patiently(work)

    def rate(self, fact_id: int, *, helpful: bool) -> Fact | None:
        """None when there is no such fact."""

        def work() -> Fact | None:
            with transaction(self.table.connection):
                fact = self.table.get(fact_id)
                if fact is None:
                    return None
                self.table.change(fact_id, trust=trust.rated(fact.trust, helpful=helpful))
                return self.table.sure(fact_id)

        return patiently(work)

    def forget(self, fact_id: int) -> bool:
        """Delete it for good, also from the journal beside the file; False when there is no such
        fact."""
        found = self.table.remove(fact_id)
        if found:
            self.table.query("PRAGMA wal_checkpoint(TRUNCATE)")
        return found

    def mark_used(self, ids: Iterable[int]) -> None:
        for fact_id in ids:
            self.table.query(
                "UPDATE facts SET used = ?, uses = uses + 1 WHERE id = ?",
                *(self.table.now(), fact_id),
            )

    def _add(self, text: str, source: str, session: str, level: float) -> Added:
        claim = claim_in(text)
        known = self.table.same(text) or next(iter(self.table.claimed(claim, same=True)), None)
        if known is None and (known := self._nearly_same(text)) is not None:
            self.table.rewrite(known.id, text)
        if known is not None:
            return self._confirm(known, session, level, claim)
        fact_id = self.table.insert(text, source, session, level)
        replaced = self._outdate(claim, fact_id)
        self._make_room()
        return Added(self.table.sure(fact_id), "added", replaced)

    def _confirm(self, fact: Fact, session: str, level: float, claim: Claim | None) -> Added:
        """Said again; within one session that adds nothing. What was replaced counts again."""
        again = trust.confirmed(fact.trust) if session != fact.session else fact.trust
        self.table.change(
            fact.id,
            trust=max(level, again),
            confirmed=self.table.now(),
            session=session,
            replaced_by=None,
        )
        replaced = self._outdate(claim, fact.id)
        return Added(self.table.sure(fact.id), "confirmed", replaced)

    def _outdate(self, claim: Claim | None, winner: int) -> tuple[Fact, ...]:
        """Older facts that claim another value: kept, but trusted less."""
        found = self.table.claimed(claim, same=False)
        old = tuple(fact for fact in found if not fact.replaced_by and fact.id != winner)
        for fact in old:
            lower = trust.contradicted(fact.trust)
            self.table.change(fact.id, replaced_by=winner, trust=lower)
        return old

    def _nearly_same(self, text: str) -> Fact | None:
        """A fact with nearly all the words, about the same things. A number or a negation more is
        a difference."""
        mine, about = set(telling(text)), {folded(each) for each in entities(text)}
        found = matches(self.table.connection, self.table.user, tuple(sorted(mine)))
        for fact_id in sorted(found, key=lambda each: -len(found[each]))[:10]:
            fact = self.table.sure(fact_id)
            theirs = set(telling(fact.text))
            other = set(folded(text).split()) ^ set(fact.terms.split())
            if len(mine & theirs) < SAME * len(mine | theirs) or other & _NEGATIONS:
                continue
            if any(character.isdigit() for word in other for character in word):
                continue
            if about == {folded(each) for each in entities(fact.text)}:
                return fact
        return None

    def _make_room(self) -> None:
        over = self.table.count() - MOST_FACTS
        if over > 0:
            now = self.table.now()
            facts = self.table.where("1")
            facts.sort(key=lambda fact: (not fact.replaced_by, fact.weight(now)))
            for fact in facts[:over]:
                self.table.remove(fact.id)

    def _mark_considered(self, text: str) -> None:
        self.table.query("INSERT OR IGNORE INTO seen VALUES (?, ?)", self.table.user, _print(text))


def tidied(text: str) -> str:
    """As it can be kept. Raises `ToolArgumentsInvalid`."""
    tidy = " ".join(clean(text).split())
    if not folded(tidy):
        raise ToolArgumentsInvalid("there are no words in it", hint="say what to remember")
    if len(tidy) > MOST_CHARS:
        raise ToolArgumentsInvalid(
            f"it has {len(tidy):,} characters, {MOST_CHARS:,} are allowed",
            hint="keep one fact at a time, in a sentence or two",
        )
    return tidy


def _print(text: str) -> bytes:
    return hashlib.sha256(folded(text).encode()).digest()[:16]

"""Uses and rests of a provider's credentials: kept over restarts, shared by all processes.

What is written when:
- a rest is written at once;
- a use is written at once where the choice depends on it (`round_robin` and `least_used` with two
  credentials or more), and the choice is made under the same lock: processes take turns;
- any other use is only counted in memory and goes into the file with the next write, after
  `FLUSH_SECONDS` at the latest while requests are made, and when the keyring is closed.
A write that fails is logged and tried again with the next one; this process knows it all the same.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from hermes.core.errors import ConfigError
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_store import AuthStore, Data
from hermes.providers.credentials.entries import (
    Entry,
    drop,
    entries_of,
    fingerprint,
    put,
)
from hermes.providers.credentials.strategies import Standing
from hermes.providers.target import GIVEN, MANUAL, Credential, variable_in

log = logging.getLogger(__name__)

FLUSH_SECONDS = 300.0
LONGEST_REST = 7 * 86_400.0
TICK = 1e-6
"""Two uses never have the same time, so that their order is known."""

Pick = Callable[[Sequence[Standing]], Standing | None]


class News(msgspec.Struct, frozen=True):
    """What happened to a credential since the file was written."""

    credential: Credential
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    rest_reason: str = ""

    def since(self, written: "News") -> "News | None":
        """What is left of it when `written` is in the file."""
        rests = self.resting_until > written.resting_until
        if self.uses == written.uses and not rests:
            return None
        return msgspec.structs.replace(
            self,
            uses=self.uses - written.uses,
            resting_until=self.resting_until if rests else 0.0,
        )


class PoolState:
    """Of one provider. `is_set` tells whether a variable still has a value."""

    def __init__(
        self, store: AuthStore, provider: str, is_set: Callable[[str], bool], clock: Clock
    ) -> None:
        self._store, self._provider, self._is_set, self._clock = store, provider, is_set, clock
        self._news: dict[str, News] = {}
        self._writing = asyncio.Lock()
        self._written_at = clock.monotonic()

    def standings(self, credentials: Iterable[Credential]) -> list[Standing]:
        """What is known of each, in their order. A rest that is over is not mentioned."""
        return self._standings(self._store.read(), credentials, self._news)

    async def claim(
        self, credentials: Sequence[Credential], pick: Pick, *, shared: bool
    ) -> Standing | None:
        """The one `pick` chooses, counted as used; None when it chooses none.

        `shared` lets processes that claim at the same time see each other's uses.
        """
        if shared:
            try:
                return await self._write(lambda data: self._claimed(data, credentials, pick))
            except ConfigError as error:
                self._complain(error)
        standings = self.standings(credentials)
        chosen = pick(standings)
        if chosen is None:
            return None
        news = self._of(chosen.credential)
        changed = {"uses": news.uses + 1, "last_used": self._next_time(standings)}
        self._news[chosen.credential.id] = msgspec.structs.replace(news, **changed)
        if self._clock.monotonic() - self._written_at >= FLUSH_SECONDS:
            await self.flush()
        return chosen

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        until = self._now() + min(max(seconds, 0.0), LONGEST_REST)
        changed = {"resting_until": until, "rest_reason": reason}
        self._news[credential.id] = msgspec.structs.replace(self._of(credential), **changed)
        await self.flush()

    async def flush(self) -> None:
        """Put what is only in memory into the file."""
        if self._news:
            try:
                await self._write(lambda _: None)
            except ConfigError as error:
                self._complain(error)

    async def _write(self, then: Callable[[Data], Standing | None]) -> Standing | None:
        """Write the news, and what `then` does to the data."""
        async with self._writing:
            news = dict(self._news)
            self._written_at = self._clock.monotonic()
            chosen = await asyncio.to_thread(self._change, news, then)
            for name, written in news.items():
                left = self._news[name].since(written)
                if left is None:
                    del self._news[name]
                else:
                    self._news[name] = left
            return chosen

    def _change(
        self, news: Mapping[str, News], then: Callable[[Data], Standing | None]
    ) -> Standing | None:
        with self._store.change() as data:
            entries = entries_of(data, self._provider)
            for name, change in news.items():
                if name in entries or not name.startswith(MANUAL):  # else it was removed
                    put(data, self._provider, _joined(entries.get(name), change))
            self._tidy(data, news)
            return then(data)

    def _claimed(
        self, data: Data, credentials: Sequence[Credential], pick: Pick
    ) -> Standing | None:
        standings = self._standings(data, credentials, {})
        chosen = pick(standings)
        if chosen is not None:
            use = News(chosen.credential, uses=1, last_used=self._next_time(standings))
            entry = entries_of(data, self._provider).get(chosen.credential.id)
            put(data, self._provider, _joined(entry, use))
        return chosen

    def _standings(
        self, data: Data, credentials: Iterable[Credential], news: Mapping[str, News]
    ) -> list[Standing]:
        entries, now = entries_of(data, self._provider), self._now()
        found: list[Standing] = []
        for one in credentials:
            entry = _joined(entries.get(one.id), news.get(one.id, News(one)))
            rests = entry.resting_until > now
            until, reason = (entry.resting_until, entry.rest_reason) if rests else (0.0, "")
            found.append(Standing(one, entry.uses, entry.last_used, until, reason))
        return found

    def _tidy(self, data: Data, news: Mapping[str, News]) -> None:
        """Forget rests that are over, and credentials that are gone; never a key added by hand."""
        now = self._now()
        for entry in entries_of(data, self._provider).values():
            if 0.0 < entry.resting_until <= now:
                rested = msgspec.structs.replace(entry, resting_until=0.0, rest_reason="")
                put(data, self._provider, rested)

        def is_gone(entry: Entry) -> bool:
            if variable := variable_in(entry.id):
                return not entry.secret and not self._is_set(variable)
            return entry.id == GIVEN and entry.id not in news and entry.resting_until <= now

        drop(data, self._provider, is_gone)

    def _of(self, credential: Credential) -> News:
        return self._news.get(credential.id, News(credential))

    def _next_time(self, standings: Sequence[Standing]) -> float:
        return max(self._now(), max(one.last_used for one in standings) + TICK)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _complain(self, error: ConfigError) -> None:
        log.warning("the state of the keys of %s is not kept: %s", self._provider, error)


def _joined(entry: Entry | None, news: News) -> Entry:
    """The entry with the news in it. An entry of another value of the same name counts nothing."""
    credential = news.credential
    borrowed = credential.id == GIVEN or bool(credential.variable)
    mark = fingerprint(credential.secret) if borrowed else ""
    if entry is None or entry.fingerprint != mark:
        source = credential.id if borrowed else credential.id.partition(":")[0]
        entry = Entry(credential.id, credential.kind, credential.label, source, fingerprint=mark)
    until, reason = max(
        (entry.resting_until, entry.rest_reason), (news.resting_until, news.rest_reason)
    )
    return msgspec.structs.replace(
        entry,
        uses=entry.uses + news.uses,
        last_used=max(entry.last_used, news.last_used),
        resting_until=until,
        rest_reason=reason,
    )

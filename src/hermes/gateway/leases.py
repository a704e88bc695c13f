"""Leases: which gateway works on a chat or an API session, and which gateways are alive.

Gateways that share a store send a heartbeat three times per lease. It extends the leases of the
process and tells the others which platforms it serves. A process whose heartbeat is older than a
lease is dead: the others take over its chats, its API sessions and its uncertain deliveries. Times
are those of the store, because the clocks of the machines may differ.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.store import LEASE_PREFIX, ChatLease, GatewayRow, SessionStore
from hermes.util.processes import is_process_gone, process_name

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25  #: Seconds between two attempts to claim a lease that is waited for.
NEVER = -1.0  #: A time before the end of every lease.


class Leases:
    """The leases of this process."""

    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        seconds: float,
        platforms: Callable[[], Iterable[str]],
    ) -> None:
        """`platforms` returns the platforms that this process serves now."""
        self._chats, self._clock = store.chats, clock
        self.seconds, self._platforms = seconds, platforms
        self.shared = store.is_shared
        self.owner = process_name()
        self._held: set[str] = set()  #: Keys of the leases of this process.
        self._offset = 0.0  #: Seconds by which the clock of the store is ahead.
        self._renewed_at, self._has_beaten = clock.monotonic(), False
        self._trusted_from = NEVER
        self.dead: tuple[GatewayRow, ...] = ()  #: Other gateways that are dead.
        self._alive: tuple[GatewayRow, ...] = ()  #: Other gateways that are alive.
        self.problem = ""  #: Why the last heartbeat failed; "" if it did not.

    def now(self) -> float:
        """Return the time by the clock of the store."""
        return self._clock.now().timestamp() + self._offset

    @property
    def expiry(self) -> float:
        """The time at which a lease must have ended to be taken over: now, or never right after
        this process could not reach the store. The others had no time to renew theirs then."""
        return self.now() if self._clock.monotonic() >= self._trusted_from else NEVER

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last successful heartbeat."""
        return self._clock.monotonic() - self._renewed_at

    def is_dead(self, owner: str) -> bool:
        """Return whether a process has ended, or has sent no heartbeat for the time of a lease."""
        return any(each.owner == owner for each in self.dead) or bool(is_process_gone(owner))

    def is_served_elsewhere(self, platform: str) -> bool:
        """Return whether another gateway that is alive serves a platform."""
        return any(platform in msgspec.json.decode(each.platforms) for each in self._alive)

    async def is_held_elsewhere(self, key: str) -> bool:
        """Return whether another process that is alive works on a chat. Raises `StoreError`."""
        row = await self._chats.get(key) if self.shared else None
        if row is None or row.owner in ("", self.owner):
            return False
        return row.lease_until > self.now() and not self.is_dead(row.owner)

    async def claim(self, key: str, session_id: str = "") -> ChatLease | None:
        """Claim a chat; None if another process works on it. `session_id` is the session of one
        that is not stored yet. Raises `StoreError`."""
        owners = await self._chats.owners()
        dead = await asyncio.to_thread(lambda: tuple(filter(is_process_gone, owners)))
        now, expiry = self.now(), self.expiry
        lease = await self._chats.claim(
            key,
            self.owner,
            now,
            now + self.seconds,
            dead=dead,
            session_id=session_id,
            expiry=expiry,
        )
        if lease is not None:
            self._held.add(key)
        return lease

    async def wait(self, kind: str, name: str, seconds: float) -> ChatLease | None:
        """Claim something of the API, such as a named conversation. Wait for at most `seconds`
        while another process holds it; return None then. Raises `StoreError`."""
        key, deadline = f"{LEASE_PREFIX}{kind}:{name}", self._clock.monotonic() + seconds
        session_id = name if kind == "session" else ""
        while True:
            lease = await self.claim(key, session_id)
            if lease is not None or self._clock.monotonic() >= deadline:
                return lease
            await self._clock.sleep(POLL_SECONDS)

    async def release(self, lease: ChatLease) -> None:
        """Free a chat. The row of a lease that is not a chat is deleted."""
        self._held.discard(lease.session_key)
        is_chat = not lease.session_key.startswith(LEASE_PREFIX)
        try:
            await (self._chats.release(lease) if is_chat else self._chats.delete(lease))
        except HermesError as error:
            log.warning("a lease could not be released and expires by itself: %s", error)

    async def run(self, on_beat: Callable[[], Awaitable[None]]) -> None:
        """Send heartbeats until cancelled; then let the others know that this process ends.
        `on_beat` is called after each heartbeat that succeeded."""
        try:
            while True:
                await self.beat()
                if not self.problem:
                    await on_beat()
                await self._clock.sleep(self.seconds / 3)
        finally:
            if self.shared and not self.problem:
                await self._end()

    async def beat(self) -> None:
        """Renew the leases of this process and learn which other gateways are alive."""
        try:
            if self.shared:
                platforms = msgspec.json.encode(sorted(self._platforms()))
                held = tuple(self._held)
                found = await self._chats.beat(self.owner, platforms, self.seconds, held)
                self._offset = found.now - self._clock.now().timestamp()
                others = [each for each in found.gateways if each.owner != self.owner]
                ended = await asyncio.to_thread(
                    lambda: {
                        each.owner
                        for each in others
                        if not found.is_alive(each) or is_process_gone(each.owner)
                    }
                )
                self.dead = tuple(each for each in others if each.owner in ended)
                self._alive = tuple(each for each in others if each.owner not in ended)
            elif self._held:
                await self._chats.renew(self.owner, self.now() + self.seconds)
        except HermesError as error:
            self.problem = str(error)
            log.error("the leases of this process could not be renewed: %s", error)
            return
        if self._has_beaten and self.silent_seconds > self.seconds:
            self._trusted_from = self._clock.monotonic() + self.seconds
        self._renewed_at, self._has_beaten, self.problem = self._clock.monotonic(), True, ""

    async def _end(self) -> None:
        try:
            await self._chats.renew(self.owner, self.now())
        except HermesError as error:
            log.warning("the leases of this process expire by themselves: %s", error)

"""A clock that moves when reported to, a pool and a ledger in memory."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from hermes.core.errors import CredentialRefused, CredentialsExhausted
from hermes.core.messages import User
from hermes.core.model import Model, ModelEvent, ModelRequest, Reply
from hermes.providers.endpoints import Credential
from tests.unit.providers.hand_clock import NOON, HandClock

ASK = ModelRequest((User.say("hi"),))


def key(name: str, secret: str = "") -> Credential:
    return Credential(f"env:{name}", secret or f"secret-of-{name}", label=name)


class MemoryPool:
    """Hands out the first credential that does not rest."""

    def __init__(self, clock: HandClock, *names: str) -> None:
        self._clock = clock
        self._credentials = [key(name) for name in names]
        self._until: dict[str, float] = {}
        self.renewals: dict[str, Credential | Exception] = {}
        self.expired: set[str] = set()
        self.rests: list[tuple[str, float, str]] = []

    @property
    def size(self) -> int:
        return len(self._credentials)

    async def take(self, avoid: Collection[str] = ()) -> Credential:
        now = self._clock.monotonic()
        expired: CredentialRefused | None = None
        for credential in sorted(self._credentials, key=lambda one: one.id in avoid):
            if self._until.get(credential.id, 0.0) <= now:
                if credential.label not in self.expired:
                    return credential
                expired = CredentialRefused(f"the login of {credential.label} has expired")
        raise expired or CredentialsExhausted("every key rests", hint="wait an hour")

    async def renew(self, credential: Credential) -> Credential | None:
        renewed = self.renewals.get(credential.label)
        if isinstance(renewed, Exception):
            raise renewed
        return renewed

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        self.rests.append((credential.label, seconds, reason))
        self._until[credential.id] = self._clock.monotonic() + seconds


class MemoryLedger:
    """What all processes have recorded."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, float, float]] = []
        self.reads = 0

    def record(self, usd: float, *, session_id: str = "s", at: datetime = NOON) -> None:
        self._rows.append((session_id, at.timestamp(), usd))

    async def spent_usd(
        self, session_id: str = "", *, since: float | None = None, user_id: str = ""
    ) -> float:
        self.reads += 1
        await asyncio.sleep(0)
        return sum(
            usd
            for session, at, usd in self._rows
            if session_id in ("", session) and (since is None or at >= since)
        )


async def ask(model: Model, request: ModelRequest = ASK) -> list[ModelEvent | Reply]:
    """The events of the call, and its reply at the end."""
    events: list[ModelEvent | Reply] = []
    events.append(await model.call(request, events.append))
    return events


async def ask_until_delta(model: Model, request: ModelRequest = ASK) -> None:
    """A user who stops the reply at its first delta."""
    call = asyncio.ensure_future(model.call(request, lambda _event: call.cancel()))
    with suppress(asyncio.CancelledError):
        await call


def kinds(events: list[ModelEvent | Reply]) -> list[str]:
    """The events without the deltas, by name."""
    return [type(event).__name__ for event in events if not hasattr(event, "text")]

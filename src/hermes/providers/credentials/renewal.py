"""Keeping the tokens of a login fresh, once for all processes.

Refresh tokens are often good for one use: two processes that renew at the same time would end the
login. So whoever renews holds a lock, and reads the tokens again before it asks: the second one
finds what the first one got.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import httpx2

from hermes.config.home import tilde
from hermes.core.errors import ConfigError, CredentialRefused, ProviderError, Unreachable
from hermes.core.ports import Clock
from hermes.providers.credentials.oauth import Tokens, refreshed
from hermes.providers.credentials.token_places import TokenPlace

log = logging.getLogger(__name__)

MARGIN_SECONDS = 300.0
"""A token that expires sooner is renewed before it is used."""

LOCK_SECONDS = 60.0
POLL_SECONDS = 0.05


class Renewal:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._unsaved: dict[Path, tuple[Tokens, Tokens]] = {}
        """Old and new tokens where the new ones could not be written, by lock file."""
        self._running: set[asyncio.Task[Tokens]] = set()

    async def tokens(self, place: TokenPlace, provider: str, refused: str = "") -> Tokens:
        """Tokens that can be used for some minutes; `refused` is one that was just refused.

        Raises `CredentialRefused` when the login is gone. When the login server cannot be reached
        or fails, a token that is still valid is given all the same, else its error is raised.
        """
        tokens = self._read(place, provider)
        if not self._is_due(tokens, refused):
            return tokens
        # Whoever waits may be cancelled; a renewal under way must not be: its answer would be lost
        # and the old refresh token is burnt.
        task = asyncio.create_task(self._renewed(place, provider, refused))
        self._running.add(task)
        task.add_done_callback(self._finished)
        try:
            return await asyncio.shield(task)
        except ProviderError as error:
            tokens = self._read(place, provider)
            if tokens.access_token == refused or not tokens.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return tokens

    async def _renewed(self, place: TokenPlace, provider: str, refused: str) -> Tokens:
        async with alone(place.lock, provider):
            old = self._read(place, provider)
            if not self._is_due(old, refused):
                return old
            new = await refreshed(self._client, old, provider, self._now())
            if new is None:
                return await self._without(place, provider, old)
            await self._save(place, old, new)
            return new

    async def _without(self, place: TokenPlace, provider: str, old: Tokens) -> Tokens:
        """The login server says that the login is over."""
        # The program a file belongs to knows nothing of our lock: it may have been quicker.
        current = place.read()
        if current is not None and current.refresh_token != old.refresh_token:
            return current
        try:
            await asyncio.to_thread(place.mark_gone, old)
        except ConfigError as error:
            log.warning("%s", error)
        raise _gone(place, provider)

    async def _save(self, place: TokenPlace, old: Tokens, new: Tokens) -> None:
        written = self._unsaved.pop(place.lock, (old, new))[0]
        try:
            await asyncio.to_thread(place.replace, written, new)
        except ConfigError as error:
            self._unsaved[place.lock] = (written, new)
            log.error("a renewed login works only until this process ends: %s", error)

    def _read(self, place: TokenPlace, provider: str) -> Tokens:
        tokens = place.read()
        old, new = self._unsaved.get(place.lock, (None, None))
        if tokens and old and new and tokens.refresh_token == old.refresh_token:
            return new
        if tokens is None or tokens.gone:
            raise _gone(place, provider)
        return tokens

    def _is_due(self, tokens: Tokens, refused: str) -> bool:
        if not tokens.refresh_token:
            return False
        return tokens.access_token == refused or not tokens.is_valid(self._now(), MARGIN_SECONDS)

    def _finished(self, task: asyncio.Task[Tokens]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it was raised to whoever waited; nobody else needs it

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _gone(place: TokenPlace, provider: str) -> CredentialRefused:
    return CredentialRefused(
        f"the login for {provider} is gone ({place.source})", provider=provider, hint=place.remedy
    )


@asynccontextmanager
async def alone(path: Path, provider: str) -> AsyncIterator[None]:
    """Holds a lock file without stopping the event loop."""
    filelock = import_module("filelock")  # slow to load, and rarely needed
    lock = filelock.FileLock(path, mode=0o600, fallback_to_soft=False)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOCK_SECONDS
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except filelock.Timeout as error:
            if loop.time() >= deadline:
                raise Unreachable(
                    f"another process has been renewing the login for {provider} for too long",
                    provider=provider,
                ) from error
            await asyncio.sleep(POLL_SECONDS)
        except OSError as error:
            raise Unreachable(
                f"the login for {provider} cannot be renewed: cannot lock {tilde(path)}:"
                f" {(error.strerror or str(error)).lower()}",
                provider=provider,
                hint="change the owner or the permissions of the folder",
            ) from error
    try:
        yield
    finally:
        lock.release()

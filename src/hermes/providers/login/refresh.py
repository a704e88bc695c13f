"""Renewal of the tokens of a login, once for all processes; for models and MCP servers.

A refresh token often works only once, so two processes that renew at the same time would revoke the
login. A renewal therefore holds a lock and reads the tokens again first: the second process finds
what the first one stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from hermes.core.errors import ConfigError, HermesError
from hermes.core.ports import Clock

log = logging.getLogger(__name__)

LOCK_SECONDS = 60.0  #: Timeout for the lock while another process renews the same login.


class RenewableTokens(Protocol):
    @property
    def access_token(self) -> str: ...
    @property
    def refresh_token(self) -> str: ...
    @property
    def gone(self) -> bool:
        """Whether the login server does not renew it any more."""
        ...

    def is_valid(self, now: float, margin: float = 0.0) -> bool: ...


T = TypeVar("T", bound=RenewableTokens)


class TokenStore(Protocol[T]):
    """The tokens of one login."""

    @property
    def name(self) -> str:
        """The provider or the server of the login."""
        ...

    @property
    def source(self) -> str:
        """Location for messages."""
        ...

    def read(self) -> T | None: ...

    def replace(self, old: T, new: T) -> None:
        """Store `new`, unless the login has changed since. Raises `ConfigError`."""
        ...

    def mark_gone(self, old: T) -> None: ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the login. Raises a `HermesError`."""
        ...

    def gone_error(self) -> HermesError:
        """Return the error for a login that does not exist or cannot be renewed."""
        ...


class TokenRefresher(Generic[T]):
    """Returns valid tokens of a store. `refresh` requests new ones, or returns None when the login
    was revoked. A token that expires in less than `margin` seconds is renewed before use."""

    def __init__(
        self,
        refresh: Callable[[TokenStore[T], T, float], Awaitable[T | None]],
        clock: Clock,
        margin: float,
    ) -> None:
        self._request, self._clock, self._margin = refresh, clock, margin
        self._unsaved: dict[str, tuple[T, T]] = {}
        """Old and new tokens that could not be written, by store."""
        self._running: set[asyncio.Task[T]] = set()

    async def tokens(self, store: TokenStore[T], refused: str = "") -> T:
        """Return tokens that are valid for some time; `refused` is one that was just refused.

        Without a refresh token, the stored tokens are returned as they are. When the login server
        is unreachable or fails, a token that is still valid is returned, otherwise its error is
        raised.
        """
        tokens = self.read(store)
        if not self._needs_refresh(tokens, refused):
            return tokens
        # The waiting task may be cancelled, but not the renewal: its response would be lost, and
        # the old refresh token no longer works.
        task = asyncio.create_task(self._refresh(store, refused))
        self._running.add(task)
        task.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(task)
        except HermesError as error:
            tokens = self.read(store)
            if tokens.access_token == refused or not tokens.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return tokens

    def read(self, store: TokenStore[T]) -> T:
        """Return the present tokens. Raises the error of the store when the login is gone."""
        tokens = store.read()
        old, new = self._unsaved.get(store.source, (None, None))
        if tokens and old and new and tokens.access_token == old.access_token:
            return new
        if tokens is None or tokens.gone:
            raise store.gone_error()
        return tokens

    async def _refresh(self, store: TokenStore[T], refused: str) -> T:
        async with store.locked():
            old = self.read(store)
            if not self._needs_refresh(old, refused):
                return old
            new = await self._request(store, old, self._now())
            if new is None:
                return await self._handle_revoked(store, old)
            written = self._unsaved.pop(store.source, (old, new))[0]
            try:
                await asyncio.to_thread(store.replace, written, new)
            except ConfigError as error:
                self._unsaved[store.source] = (written, new)
                log.error("a renewed login is lost when this process ends: %s", error)
            return new

    async def _handle_revoked(self, store: TokenStore[T], old: T) -> T:
        """Return tokens renewed elsewhere, or raise."""
        # The owner of the file may not use our lock and may have renewed first.
        current = store.read()
        if current is not None and current.refresh_token != old.refresh_token:
            return current
        try:
            await asyncio.to_thread(store.mark_gone, old)
        except ConfigError as error:
            log.warning("%s", error)
        raise store.gone_error()

    def _needs_refresh(self, tokens: T, refused: str) -> bool:
        if not tokens.refresh_token:
            return False
        return tokens.access_token == refused or not tokens.is_valid(self._now(), self._margin)

    def _on_done(self, task: asyncio.Task[T]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # already raised to the waiting task; avoids asyncio's warning

    def _now(self) -> float:
        return self._clock.now().timestamp()

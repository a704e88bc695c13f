"""Authorising requests with a stored login: renewed by itself, but nobody is asked to sign in."""

import asyncio
import logging
from importlib import import_module

import msgspec

from hermes.core.errors import ConfigError, HermesError
from hermes.core.ports import Clock
from hermes.mcp.oauth.addresses import may_carry_tokens
from hermes.mcp.oauth.challenges import bearer, scopes
from hermes.mcp.oauth.failures import LoginFailed, LoginNeeded
from hermes.mcp.oauth.logins import Login, LoginStore

MARGIN_SECONDS = 60.0
"""A token that expires sooner is renewed before it is used."""
YOUNG_SECONDS = 30.0
"""A token that was just given and is refused will not get better by another one."""
UNAUTHORIZED, FORBIDDEN = 401, 403

log = logging.getLogger(__name__)


class StoredAuthoriser:
    """An `mcp.authorising.Authoriser`. Processes share the login through `store`."""

    def __init__(self, name: str, url: str, store: LoginStore, clock: Clock) -> None:
        self._name, self._url, self._store, self._clock = name, url, store, clock
        self._given = ""
        """The token of the last request."""
        self._unsaved: tuple[str, Login] | None = None
        """The token in the file, and the login in its place when that could not be written."""
        self._renewing: set[asyncio.Task[Login]] = set()

    async def headers(self) -> dict[str, str]:
        login = self._read()
        if not login.is_valid(self._now(), MARGIN_SECONDS):
            login = await self._renewed(login, refused="")
        self._given = login.access_token
        return {"Authorization": f"Bearer {login.access_token}"}

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        login = self._read()
        if login.access_token != self._given:
            return True  # renewed meanwhile, here or by another process
        if response_status == UNAUTHORIZED:
            # Of several requests at once the first renewed it; the others need only try again.
            if self._now() - login.obtained_at > YOUNG_SECONDS:
                await self._renewed(login, refused=login.access_token)
            return True
        challenge = bearer(www_authenticate)
        if response_status != FORBIDDEN or challenge.get("error") != "insufficient_scope":
            return False
        return await self._wants_more(login, scopes(challenge.get("scope", "")))

    async def _wants_more(self, login: Login, wanted: str) -> bool:
        """Remember what the next login has to ask for. Raises `LoginNeeded`."""
        missing = scopes(
            " ".join(each for each in wanted.split() if each not in login.scope.split())
        )
        if not missing:
            return False  # it has them all: signing in again will not help
        async with self._store.alone():
            login = self._read()
            more = scopes(login.wanted or login.scope, missing)
            if more != login.wanted:
                self._store.save(msgspec.structs.replace(login, wanted=more))
        raise LoginNeeded(self._name, f"the login has not the rights for this ({missing})")

    async def _renewed(self, login: Login, refused: str) -> Login:
        """A login that can be used. A token that still works is used when there is no other."""
        if not login.refresh_token:
            if refused or not login.is_valid(self._now()):
                raise self._ended()
            return login
        # Whoever waits may be cancelled; a renewal must not be: its answer would be lost and the
        # old refresh token is used up.
        task = asyncio.create_task(self._renew(refused))
        self._renewing.add(task)
        task.add_done_callback(self._finished)
        try:
            return await asyncio.shield(task)
        except LoginNeeded:
            raise
        except HermesError as error:
            login = self._read()
            if login.access_token == refused or not login.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return login

    async def _renew(self, refused: str) -> Login:
        exchange = import_module("hermes.mcp.oauth.exchange")
        web = import_module("hermes.mcp.oauth.web")
        async with self._store.alone(), web.Web(self._name, self._url) as client:
            old = self._read()
            if old.access_token != refused and old.is_valid(self._now(), MARGIN_SECONDS):
                return old  # another one was quicker
            new: Login | None = await exchange.refreshed(client, old, self._now())
            if new is None:
                self._save(old, msgspec.structs.replace(old, gone=True, refresh_token=""))
                raise self._ended()
            self._save(old, new)
            return new

    def _read(self) -> Login:
        """Raises `LoginNeeded`, or `ConfigError`."""
        if not may_carry_tokens(self._url):
            raise LoginFailed(
                "its url is not protected by TLS, so no token is sent there",
                hint="begin `url` with https://; only a server on this machine may do without",
            )
        login = self._store.load()
        if login is not None and self._unsaved and self._unsaved[0] == login.access_token:
            login = self._unsaved[1]
        if login is None:
            raise LoginNeeded(self._name, "nobody has signed in to it yet")
        if login.url != self._url:
            raise LoginNeeded(self._name, "the login is for another address than its `url`")
        if login.gone:
            raise LoginNeeded(self._name, "the login has ended")
        return login

    def _save(self, old: Login, new: Login) -> None:
        try:
            self._store.save(new)
            self._unsaved = None
        except ConfigError as error:
            held = self._unsaved[0] if self._unsaved else old.access_token
            self._unsaved = (held, new)
            log.error("a renewed login works only until this process ends: %s", error)

    def _ended(self) -> LoginNeeded:
        return LoginNeeded(self._name, "the login has ended")

    def _finished(self, task: asyncio.Task[Login]) -> None:
        self._renewing.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it

    def _now(self) -> float:
        return self._clock.now().timestamp()

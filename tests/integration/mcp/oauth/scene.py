"""A user who signs in to a guarded server, and a clock that can be set."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes.mcp.oauth import (
    LoginOptions,
    LoginStore,
    McpLogin,
    McpLoginPrompt,
    StoredLoginAuthorizer,
    login,
)
from tests.integration.mcp.oauth.guarded import GuardedSite, LoginSite, browse

NAME = "tickets"


class SetClock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Scene:
    def __init__(self, folder: Path, login: LoginSite, guarded: GuardedSite) -> None:
        self.folder, self.login, self.guarded = folder, login, guarded
        self.clock = SetClock()
        self.shown: list[str] = []
        self.store = LoginStore(folder, NAME)

    async def sign_in(self, *, url: str = "", seconds: float = 20, **wishes: Any) -> McpLogin:
        person = McpLoginPrompt(self.shown.append, browse)
        return await self.sign_in_as(person, url=url, seconds=seconds, **wishes)

    async def sign_in_as(self, person, *, url="", seconds=20, **wishes):
        where = url or self.guarded.url
        given = LoginOptions(**wishes)
        return await login(NAME, where, self.folder, person, self.clock, given, seconds=seconds)

    def authorizer(self, url: str = "") -> StoredLoginAuthorizer:
        store = LoginStore(self.folder, NAME, url or self.guarded.url)
        return StoredLoginAuthorizer(store, self.clock)

    def stored(self) -> McpLogin:
        held = self.store.load()
        assert held is not None
        return held

    def change(self, **fields: Any) -> None:
        self.store.save(msgspec.structs.replace(self.stored(), **fields))

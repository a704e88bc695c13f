"""A clock that is set by hand, and a door with everything around it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes.config.settings import Settings
from hermes.config.settings.platforms import GatewaySettings
from hermes.gateway.auth import Admission, Authorizer
from hermes.gateway.pairing import PairingStore
from hermes.gateway.platforms.kit.contract import SessionSource

CHEAP = 2
"""Cost of a hash in tests that are not about hashes."""


class HandClock:
    def __init__(self, at: float = 1_000_000.0) -> None:
        self.at = at

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class Scene:
    """A home with a door; variables are set in `variables`, the clock in `clock.at`."""

    def __init__(self, folder: Path, **gateway: Any) -> None:
        self.folder = folder / "pairing"
        self.clock = HandClock()
        self.variables: dict[str, str] = {}
        self.store = PairingStore(self.folder, self.clock, cost=CHEAP)
        self.settings = Settings(gateway=GatewaySettings(**gateway))
        self.prefixes = {name: name.upper() for name in ("telegram", "discord", "matrix", "email")}

    async def says(
        self, user: str, text: str = "hello", platform: str = "telegram", **facts: Any
    ) -> Admission:
        source = SessionSource(platform, facts.pop("chat_id", "c1"), user_id=user, **facts)
        authorizer = Authorizer(self.settings, self.variables.get, self.store, self.prefixes)
        return await authorizer.admit(source, text)

    def another_process(self) -> PairingStore:
        """What a program that is started later sees."""
        return PairingStore(self.folder, self.clock, cost=CHEAP)


def code_in(reply: str) -> str:
    """The code a stranger was told."""
    return reply.split("code is ")[1][:8]

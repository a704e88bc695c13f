"""An authorizer and its pairing store, with variables and a clock that tests set."""

from pathlib import Path
from typing import Any

from hermes.config.settings import Settings
from hermes.config.settings.platforms import GatewaySettings
from hermes.gateway.auth import Admission, Authorizer
from hermes.gateway.pairing import PairingStore
from hermes.sdk.platforms import SessionSource
from tests.unit.gateway.hand_clock import HandClock

CHEAP = 2  #: Cost of a hash in tests that are not about hashes.


class AuthSetup:
    """Variables are set in `variables`, the clock in `clock.time`."""

    def __init__(self, folder: Path, **gateway: Any) -> None:
        self.folder = folder / "pairing"
        self.clock = HandClock()
        self.variables: dict[str, str] = {}
        self.store = PairingStore(self.folder, self.clock, cost=CHEAP)
        self.settings = Settings(gateway=GatewaySettings(**gateway))

    async def says(
        self, user: str, text: str = "hello", platform: str = "telegram", **facts: Any
    ) -> Admission:
        source = SessionSource(platform, facts.pop("chat_id", "c1"), user_id=user, **facts)
        authorizer = Authorizer(self.settings, self.variables.get, self.store, {})
        return await authorizer.admit(source, text)

    def another_process(self) -> PairingStore:
        """Return the store as another process opens it."""
        return PairingStore(self.folder, self.clock, cost=CHEAP)


def code_in(reply: str) -> str:
    """Return the code in the reply to a stranger."""
    return reply.split("code is ")[1][:8]

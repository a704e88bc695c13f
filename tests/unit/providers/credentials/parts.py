"""A clock that is moved by hand, variables of a test, and a bench that builds keyrings."""

import random
from collections.abc import Mapping
from pathlib import Path

import httpx2
import msgspec

from hermes.core.ports import Clock
from hermes.providers.credentials.auth_file import AuthFile
from hermes.providers.credentials.pool import Keyring
from hermes.providers.endpoints import Endpoint, LoginSpec
from tests.unit.providers.hand_clock import HandClock


class Values:
    """Variables: those of .env and those of the shell."""

    def __init__(
        self, shell: Mapping[str, str] | None = None, saved: Mapping[str, str] | None = None
    ) -> None:
        self.shell, self.saved = dict(shell or {}), dict(saved or {})

    def secret(self, name: str) -> str | None:
        return self.saved.get(name) or self.shell.get(name) or None


class Bench:
    """One home; each keyring is what a fresh process would have."""

    def __init__(self, folder: Path, client: httpx2.AsyncClient) -> None:
        self.user_home = folder
        self.store = AuthFile(folder / ".hermes" / "auth.json")
        self.variables = Values()
        self.clock: Clock = HandClock()
        self.client = client

    def keyring(self, strategy: str = "", **options: LoginSpec) -> Keyring:
        return Keyring(
            self.store,
            self.variables,
            client=self.client,
            clock=self.clock,
            user_home=self.user_home,
            strategies=dict.fromkeys(("shop", "copilot"), strategy) if strategy else {},
            rng=random.Random(1),
            **options,
        )

    def write(self, name: str, content: object) -> Path:
        """A file of another program."""
        path = self.user_home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(content))
        return path


def shop(login: LoginSpec | None = None, base_url: str = "https://shop.example/v1") -> Endpoint:
    """A provider with two variables for keys."""
    return Endpoint(
        id="shop",
        label="The Shop",
        base_url=base_url,
        key_vars=("SHOP_KEY", "SHOP_OLD_KEY"),
        login=login,
    )

"""What the processes of these tests do: `python actors.py WHAT auth.json …`."""

import asyncio
import os
import sys
from pathlib import Path

import httpx2

from hermes.cli.main import main
from hermes.providers import endpoints
from hermes.providers.credentials.auth_file import AuthFile, KeyEntry, put_entry
from hermes.providers.credentials.pool import Keyring
from hermes.providers.endpoints import Endpoint, LoginSpec
from hermes.util.concurrency import SystemClock
from tests.unit.providers.credentials.parts import Values

SHOP = Endpoint(id="shop", label="The Shop", base_url="https://shop.example/v1")


def add(path: str, name: str, count: str) -> None:
    """Adds keys as fast as it can."""
    store = AuthFile(Path(path))
    for number in range(int(count)):
        with store.change() as data:
            entry = KeyEntry(f"manual:{name}-{number}", source="manual", secret=f"{name}-{number}")
            put_entry(data, "shop", entry)


def write(path: str) -> None:
    """Writes until it is killed."""
    store, number = AuthFile(Path(path)), 0
    while True:
        number += 1
        with store.change() as data:
            data["filler"] = [number] * 20_000
        os.write(1, b".")


def take(path: str, count: str, strategy: str) -> None:
    """Takes credentials and says which."""
    asyncio.run(_take(Path(path), int(count), strategy))


async def _take(path: Path, count: int, strategy: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        keyring = Keyring(
            AuthFile(path),
            Values(),
            client=client,
            clock=SystemClock(),
            user_home=path.parent,
            strategies={"shop": strategy},  # type: ignore[dict-item]
        )
        pool = keyring.pool(SHOP, keyring.credentials(SHOP))
        for _ in range(count):
            print((await pool.take()).secret, flush=True)  # noqa: T201
        await keyring.close()


def hermes(url: str, *words: str) -> None:
    """`hermes` with a provider whose login server is at `url`."""
    login = LoginSpec("test-client", f"{url}/device/code", f"{url}/token")
    shop = Endpoint(id="shop", label="The Shop", base_url="https://shop.example", login=login)
    endpoints.ENDPOINTS = (*endpoints.ENDPOINTS, shop)
    sys.exit(main(list(words)))


if __name__ == "__main__":
    {"add": add, "write": write, "take": take, "hermes": hermes}[sys.argv[1]](*sys.argv[2:])

"""A real homeserver on loopback, shared by all workers of a test run."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from hermes.util.files import file_lock

KEEPER = Path(__file__).with_name("keeper.py")
STARTING = 90.0
LOGGING = {"version": 1, "disable_existing_loggers": True, "root": {"level": "ERROR"}}
CONFIG = Path(__file__).with_name("homeserver.json")
LIMITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("message", "registration", "joins_per_room", "room_creation"), ()),
    "login": ("address", "account", "failed_attempts"),
    "joins": ("local", "remote"),
    "invites": ("per_room", "per_user", "per_issuer"),
}
OFTEN = {"per_second": 100_000, "burst_count": 100_000}


class Homeserver:
    def __init__(self, address: str) -> None:
        self.address = address
        self.people: dict[str, tuple[str, str, str]] = {}
        """Accounts that were made already, by name."""


def running_homeserver(folder: Path, pid: int) -> Homeserver:
    """Return the homeserver of the folder, started by the first caller until process `pid` ends."""
    address = folder / "address"
    with file_lock(folder / "lock", 600):
        if not address.exists():
            address.write_text(_start(folder, pid))
        return Homeserver(address.read_text())


def _start(folder: Path, pid: int) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config, log = folder / "hs.yaml", folder / "log"
    config.write_text(json.dumps(_config(folder, port)))
    (folder / "log.yaml").write_text(json.dumps(LOGGING))
    seed = base64.b64encode(os.urandom(32)).decode().rstrip("=")
    (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
    command = [sys.executable, str(KEEPER), str(pid), str(config), str(log)]
    subprocess.run(command, check=True, cwd=folder)
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + STARTING
    while not _is_ready(address):
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.05)
    return address


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _config(folder: Path, port: int) -> dict[str, Any]:
    """The usual settings without the features that no test uses: they take a third of the time."""
    config: dict[str, Any] = json.loads(CONFIG.read_text())
    for name in ("pid_file", "media_store_path", "signing_key_path", "log_config"):
        config[name] = str(folder / config[name])
    listener = {"port": port, "type": "http", "bind_addresses": ["127.0.0.1"]}
    config["listeners"] = [listener | {"resources": [{"names": ["client"]}]}]
    for name, kinds in LIMITS.items():
        config[f"rc_{name}"] = dict.fromkeys(kinds, OFTEN) or OFTEN
    return config

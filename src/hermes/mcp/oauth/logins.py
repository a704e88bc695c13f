"""The logins: one file for each server in `<home>/mcp-tokens`, for its owner's eyes only."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.config.home import tilde, unusable
from hermes.mcp.failures import Unreachable
from hermes.mcp.oauth.client import Client
from hermes.mcp.oauth.failures import LoginNeeded
from hermes.util import atomic

LOCK_SECONDS = 60.0
"""Longest wait for another process that renews the same login."""
POLL_SECONDS = 0.05


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str
    """The server it is for. Nobody else gets its tokens."""
    issuer: str
    resource: str
    token_endpoint: str
    client: Client
    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None
    """Seconds since the epoch; None when it is not known or never."""
    obtained_at: float = 0.0
    scope: str = ""
    """What was granted."""
    wanted: str = ""
    """What the next login should ask for, since the server wanted more."""
    revocation_endpoint: str = ""
    gone: bool = False
    """The login server will not renew it any more."""

    def __repr__(self) -> str:
        return f"Login({self.url!r}, expires_at={self.expires_at!r}, gone={self.gone!r})"

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return not self.gone and (self.expires_at is None or self.expires_at > now + margin)

    def is_usable(self, now: float) -> bool:
        """It works, or can be renewed."""
        return not self.gone and (self.is_valid(now) or bool(self.refresh_token))


class LoginStore:
    """The login of one server. Reading needs no lock: the file is only ever replaced as a whole."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        plain = re.sub(r"[^\w-]", "_", name)[:80]
        if plain != name:
            plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
        self.path, self._lock = folder / f"{plain}.json", folder / f".{plain}.lock"

    def load(self) -> Login | None:
        """None when there is none. Raises `ConfigError`, or `LoginNeeded` for a damaged one."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Login)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(self.path, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LoginNeeded(self._name, f"{tilde(self.path)} is damaged") from None

    def save(self, login: Login) -> None:
        """Raises `ConfigError`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = msgspec.json.format(msgspec.json.encode(login), indent=2)
            atomic.write_bytes(self.path, data, mode=0o600)
        except OSError as error:
            raise unusable(self.path, error) from error

    def remove(self) -> bool:
        """Whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unusable(self.path, error) from error
        return True

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """One process at a time, without stopping the event loop: a refresh token is often good
        for one use, so two that renew at once would end the login."""
        filelock = import_module("filelock")  # slow to load, and rarely needed
        lock = filelock.FileLock(self._lock, mode=0o600, fallback_to_soft=False)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LOCK_SECONDS
        while True:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock.acquire(blocking=False)
                break
            except filelock.Timeout:
                if loop.time() >= deadline:
                    raise Unreachable(
                        f"another process has been busy with the login of {self._name} for too long"
                    ) from None
                await asyncio.sleep(POLL_SECONDS)
            except OSError as error:
                raise unusable(self._lock, error) from error
        try:
            yield
        finally:
            lock.release()

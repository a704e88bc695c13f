"""`gateway.status`: one token, one gateway."""

from typing import Any, NamedTuple

from hermes.app.compat.runtime import shared_process
from hermes.gateway.platforms.kit import connection


class Acquired(NamedTuple):
    """True or False, and can be taken apart: `acquired, problem = acquire_scoped_lock(…)`."""

    acquired: bool
    problem: str = ""
    """Who has the lock, in words."""

    def __bool__(self) -> bool:
        return self.acquired


_held: dict[tuple[str, str], connection.ScopedLock] = {}


def acquire_scoped_lock(
    scope: str,
    identity: str,
    metadata: dict[str, Any] | None = None,  # noqa: ARG001 - only who holds it is written down
) -> Acquired:
    """Take the lock of a token for this process; one that is ours already is fine. `scope` is the
    platform, `identity` the token, which is written nowhere."""
    home = shared_process().home
    if (scope, identity) in _held:
        return Acquired(True)
    folder = home.default_root / "locks"
    try:
        lock = connection.acquire_scoped_lock(scope, identity, folder, holder=str(home.root))
    except connection.TokenInUse as error:
        return Acquired(False, str(error))
    _held[scope, identity] = lock
    return Acquired(True)


def release_scoped_lock(scope: str, identity: str) -> None:
    """A lock that is not ours is left alone."""
    connection.release_scoped_lock(_held.pop((scope, identity), None))

"""What the running gateway says of itself in `gateway_state.json`, for `hermes gateway status` and
for whoever watches it. No secret is ever in it."""

from pathlib import Path

import msgspec

from hermes.config.home import unusable
from hermes.util import atomic

STATE_FILE = "gateway_state.json"


class AdapterState(msgspec.Struct, frozen=True):
    platform: str
    state: str
    """`connected`, `connecting`, `waiting` (for its next attempt), `failed`, `stopped`, or
    `incomplete`: it is not tried, since only some of its variables are there."""
    account: str = ""
    detail: str = ""
    """Why it is not connected; of one that is, where it listens."""
    hint: str = ""
    """What to do about it."""
    since: float = 0.0
    last_in: float | None = None
    last_out: float | None = None
    waiting_out: int = 0
    """Messages that are to be sent there."""


class GatewayState(msgspec.Struct, frozen=True):
    pid: int
    state: str
    """`starting`, `running`, `draining` or `stopped`."""
    started_at: float
    updated_at: float
    adapters: tuple[AdapterState, ...] = ()
    waiting_in: int = 0
    """Messages nobody works on yet."""
    waiting_out: int = 0
    unreadable_in: int = 0
    """Messages that were damaged in the store, so that nobody answers them."""
    turns: int = 0
    """Turns that run now."""
    last_in: float | None = None
    last_out: float | None = None
    cron: str = ""
    """How scheduled jobs fare, in few words."""
    troubles: tuple[str, ...] = ()
    """What does not work, beside platforms."""


def write_state(root: Path, state: GatewayState) -> None:
    path = root / STATE_FILE
    try:
        atomic.write_bytes(path, msgspec.json.encode(state) + b"\n", mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error


def read_state(root: Path) -> GatewayState | None:
    """The last that was said; None when there is nothing one can read. It is the state of the
    running gateway only if the process is the same."""
    path = root / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=GatewayState)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    except OSError as error:
        raise unusable(path, error) from error

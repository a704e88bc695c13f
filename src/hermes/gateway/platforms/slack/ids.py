"""Names of chats and messages.

Slack's ids are unique in a workspace only. Those of the home workspace, the one of the first token,
are used as they are; those of other workspaces have it before them: `T024BE7LD/C0123`. A message is
named by its chat and its time, which Slack calls `ts`: `C0123:1700000000.000100`.
"""

import re

from hermes.gateway.platforms.kit.seen import Scale

_TS = re.compile(r"\d+\.\d{6}")


def message_id(chat_id: str, ts: str) -> str:
    return f"{chat_id}:{ts}"


def ts_of(message_id: str) -> str:
    """Slack's name of a message; "" for what is no message, such as a command or a button."""
    ts = message_id.rpartition(":")[2]
    return ts if _TS.fullmatch(ts) else ""


def split_chat(chat_id: str) -> tuple[str, str]:
    """The workspace, "" for home, and the channel in it."""
    team, _, channel = chat_id.rpartition("/")
    return team, channel


def micros(ts: str) -> int:
    """Microseconds since 1970; 0 for what is no time."""
    return int(ts.replace(".", "")) if _TS.fullmatch(ts) else 0


def ts_at(seconds: float) -> str:
    return f"{max(seconds, 0.0):.6f}"


SCALE = Scale(
    place=lambda message: micros(ts_of(message)),
    at=lambda seconds: micros(ts_at(seconds)),
    time=lambda place: place / 1e6,
)
"""How names of messages grow with time."""

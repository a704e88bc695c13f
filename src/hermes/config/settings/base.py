"""What all sections of the settings share."""

from typing import Annotated, Literal

import msgspec

from hermes.util.lazy import bundled_names


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A block of settings: a field is a key of config.yaml, the comment behind it its meaning."""


OffOr = Literal["off"] | str
"""Any word; `off` without quotes, which YAML reads as false, is that word too."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
LeaseSeconds = Annotated[float, msgspec.Meta(ge=3, le=300)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Hour = Annotated[int, msgspec.Meta(ge=0, le=23)]
TimeZone = Annotated[str, msgspec.Meta(title="the name of a time zone, such as Europe/Berlin")]
TERMINALS = ("local", "sandbox", "docker", "ssh")  #: The terminal backends of Hermes itself.


def terminal_names() -> tuple[str, ...]:
    """Return the terminal backends of Hermes and of the bundled plugins."""
    return (*TERMINALS, *bundled_names("terminals"))


TerminalName = Annotated[str, msgspec.Meta(extra={"choices": terminal_names})]
"""A terminal backend. Plugins that are enabled may add others."""
ChatTerminalName = Annotated[
    str, msgspec.Meta(extra={"choices": lambda: ("auto", *terminal_names())})
]
Dollars = Annotated[float, msgspec.Meta(ge=0)]
UnauthorizedDm = Literal["pair", "ignore"]


class PlatformBehaviour(Section, frozen=True):
    unauthorized_dm_behavior: UnauthorizedDm | None = None
    """What a stranger's message gets here; unset follows the setting for all platforms."""


class PlatformConnectionSettings(PlatformBehaviour, frozen=True):
    enabled: bool | None = None  #: Connect to it; unset connects when its credentials are there.
    token: str = ""  #: Its token, best written as `${NAME}`; several Slack workspaces by commas.
    reply_to_mode: OffOr = "first"  #: Which parts of an answer quote the message.

"""What all sections of the settings share."""

from typing import Annotated, Literal

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A block of settings: a field is a key of config.yaml, the comment behind it its meaning."""


OffOr = Literal["off"] | str
"""Any word; `off` without quotes, which YAML reads as false, is that word too."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Hour = Annotated[int, msgspec.Meta(ge=0, le=23)]
TimeZone = Annotated[str, msgspec.Meta(title="the name of a time zone, such as Europe/Berlin")]
Dollars = Annotated[float, msgspec.Meta(ge=0)]

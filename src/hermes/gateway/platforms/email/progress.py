"""Which mail was looked at last, so that none is missed and none comes twice."""

from pathlib import Path

import msgspec

from hermes.util.atomic import write_bytes


class Place(msgspec.Struct, frozen=True):
    validity: int
    """UIDVALIDITY: when it changes, numbers mean other mails."""
    uid: int
    """The last mail that was taken or left."""
    at: float
    """When."""


def load(file: Path) -> Place | None:
    """None when there is none, or one that cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Place)
    except (OSError, msgspec.DecodeError):
        return None


def save(file: Path, place: Place) -> None:
    """On disk when it returns. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_bytes(file, msgspec.json.encode(place))

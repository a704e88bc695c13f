"""What an archive says about itself."""

from typing import Annotated

import msgspec

from hermes.app.backups.contents import Kind

FORMAT = 1
"""Raised when an older Hermes could not bring a newer archive back rightly."""
NAME = "hermes-backup.json"

Size = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Mode = Annotated[int, msgspec.Meta(ge=0, le=0o777)]


class FileRecord(msgspec.Struct, frozen=True):
    size: Size
    sha256: Sha256
    mode: Mode


class Heading(msgspec.Struct, frozen=True):
    """The part that every version can read."""

    format: int
    hermes: str = "?"
    """The version that wrote it."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    hermes: str
    created: str
    """Moment, ISO 8601."""
    kind: Kind
    profile: str
    label: str = ""
    files: dict[str, FileRecord] = {}

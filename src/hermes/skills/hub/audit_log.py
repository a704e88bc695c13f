"""`audit.log`: one JSON object a line for everything the hub did or refused to do."""

import os
from pathlib import Path

import msgspec

from hermes.skills.hub.errors import UNREADABLE


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str
    """ISO 8601, in UTC."""
    what: str
    """installed, updated, removed, refused, restored, imported, published, tampered."""
    skill: str
    source: str = ""
    identifier: str = ""
    version: str = ""
    sha256: str = ""
    verdict: str = ""
    reason: str = ""


def append(file: Path, event: Event) -> None:
    """In one write, so that two processes do not mix their lines."""
    line = msgspec.json.encode(event) + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read(file: Path) -> list[Event]:
    """A line that was cut off by a crash is left out."""
    try:
        lines = file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    events: list[Event] = []
    for line in lines:
        try:
            events.append(msgspec.json.decode(line, type=Event))
        except UNREADABLE:
            continue
    return events

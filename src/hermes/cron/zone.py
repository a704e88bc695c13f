"""The time zone that schedules are meant in."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hermes.config.environment import variable

LOCAL_TIME = Path("/etc/localtime")


def zone_of(name: str) -> tzinfo:
    """The zone of the setting `timezone`; "" is the machine's, with its daylight saving."""
    if name:
        return ZoneInfo(name)
    for find in (_of_variable, _of_machine):
        if (found := find()) is not None:
            return found
    return datetime.now(UTC).astimezone().tzinfo or UTC


def _of_variable() -> tzinfo | None:
    """What TZ names; a rule such as `EST5EDT,M3.2.0` is left to the system."""
    named = (variable("TZ") or "").removeprefix(":")
    try:
        return ZoneInfo(named) if named else None
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def _of_machine() -> tzinfo | None:
    if variable("TZ"):
        return None
    try:
        with LOCAL_TIME.open("rb") as file:
            return ZoneInfo.from_file(file, key=_name(LOCAL_TIME))
    except (OSError, ValueError):
        return None


def _name(file: Path) -> str | None:
    _, found, name = str(file.resolve()).partition("/zoneinfo/")
    return name if found else None

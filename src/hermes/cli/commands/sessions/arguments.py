"""Values of the command line, checked while it is read."""

import argparse
import time
from datetime import date, datetime, timedelta
from typing import Any

from hermes.util.text import parse_duration

DAY = 86_400


def positive(text: str) -> int:
    number = _number(text)
    if not 1 <= number < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 up")
    return number


def age(text: str) -> int:
    """Seconds of a number of days, or of a duration such as `12h`."""
    if text.isascii() and text.isdigit():
        text = f"{text}d"
    seconds = parse_duration(text)
    if seconds is None or seconds > time.time():
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 90 (days), 12h or 30m")
    return seconds


def since(text: str) -> float:
    """The moment a date begins, or that long ago."""
    return _moment(text)[0]


def until(text: str) -> float:
    """The moment a date ends, or that long ago."""
    return _moment(text)[1]


def add_session(parser: argparse.ArgumentParser, **options: Any) -> None:
    parser.add_argument(
        "session", metavar="ID", help="the id, its beginning, or the title", **options
    )


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def example(*lines: str) -> str:
    """The end of a help text."""
    return "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {x}" for x in lines)])


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _moment(text: str) -> tuple[float, float]:
    """The first and the last moment that `text` can mean; a time without zone is local time."""
    seconds = parse_duration(text)
    if seconds is not None and seconds < time.time():
        ago = time.time() - seconds
        return ago, ago
    try:
        start = datetime.fromisoformat(text.strip())
        end = start + timedelta(days=1) if _is_date(text.strip()) else start
        return start.timestamp(), end.timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a date such as 2026-01-31 or 2026-01-31T14:00,"
            " nor a time ago such as 7d or 12h"
        ) from None


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False

"""Tables, questions, argument types and progress that several commands use."""

import argparse
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from hermes.cli.context import Arg, Cli, ProgressLine, arg
from hermes.config.environment import term_is_dumb
from hermes.store import Progress, ignore_progress
from hermes.util.text import human_duration, parse_duration

PASTE_HINT = (
    "In a browser on another machine you end at a page that does not load:\n"
    "copy its address, paste it here and press Enter."
)


def show_login_url(cli: Cli, url: str, *hints: str, paste: bool = True) -> None:
    """Ask the user to open an address; `hints` are further lines."""
    for line in (f"Open   {url}", *hints):
        cli.say(line)
    if paste and cli.interactive:
        cli.say(PASTE_HINT)
    cli.say("Waiting; Ctrl-C stops.")


def ago(timestamp: float) -> str:
    return f"{human_duration(time.time() - timestamp)} ago"


# Types of command line arguments.

DAY = 86_400


def positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 1 <= number < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 up")
    return number


def age(text: str) -> int:
    """Parse a number of days, or a duration such as `12h`, to seconds."""
    if text.isascii() and text.isdigit():
        text = f"{text}d"
    seconds = parse_duration(text)
    if seconds is None or seconds > time.time():
        raise argparse.ArgumentTypeError(f"{text!r} is not an age such as 90 (days), 12h or 30m")
    return seconds


def since(text: str) -> float:
    """Parse a date to its start, or a duration to the time that long ago."""
    return _time_range(text)[0]


def until(text: str) -> float:
    """Parse a date to its end, or a duration to the time that long ago."""
    return _time_range(text)[1]


def limit(number: int, *names: str) -> Arg:
    """Return the option `--limit` with its default."""
    text = f"how many ({number})"
    return arg(*names, "--limit", type=positive, default=number, metavar="N", help=text)


SESSION = arg("session", metavar="ID", help="the id, the start of the id, or the title")


def _time_range(text: str) -> tuple[float, float]:
    """Return the first and last timestamp `text` can mean, in local time unless it names a zone."""
    seconds = parse_duration(text)
    if seconds is not None and seconds < time.time():
        ago = time.time() - seconds
        return ago, ago
    try:
        start = datetime.fromisoformat(text.strip())
        is_day = len(text.strip()) <= len("2026-01-31")
        end = start + timedelta(days=1) if is_day else start
        return start.timestamp(), end.timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a date such as 2026-01-31 or 2026-01-31T14:00,"
            " nor a time ago such as 7d or 12h"
        ) from None


def pick_named(answer: str, names: Sequence[str]) -> str:
    """Return the name with this number in a list that begins at 1, or the answer itself."""
    is_number = answer.isdecimal() and 1 <= int(answer) <= len(names)
    return names[int(answer) - 1] if is_number else answer


def has_picker(cli: Cli) -> bool:
    """Return whether the user can choose with the arrow keys; elsewhere a list is numbered."""
    if not cli.interactive or term_is_dumb() or cli.load().settings.display.plain:
        return False
    from hermes.tui import is_terminal_open  # only for commands that ask

    return is_terminal_open(cli.stdout)


def progress_on(cli: Cli, label: str) -> Progress:
    """Return a progress callback that draws a bar on a terminal and does nothing elsewhere."""
    if not cli.stderr.isatty():
        return ignore_progress
    line = ProgressLine(cli.stderr, in_bytes=False)

    def report(done: int, total: int) -> None:
        if total:
            line.report(label, done, total)

    return report

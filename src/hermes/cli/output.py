"""Tables, questions, argument types and progress that several commands use."""

import argparse
import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TextIO

from hermes.cli.context import Arg, Cli, ProgressLine, arg
from hermes.config.environment import term_is_dumb
from hermes.store import Progress, ignore_progress
from hermes.util.text import escape_controls, human_duration, parse_duration

if TYPE_CHECKING:
    from hermes.batch import Progress as RunProgress

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


def amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above 0")
    return number


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


# Runs of prompts and tasks.

PLAIN_PROGRESS_SECONDS = 10.0  #: Between two lines of progress, where there is no terminal.


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # it has no size
        return 80


class RunProgressView:
    """Shows the progress on one line of a terminal; elsewhere as a line from time to time."""

    def __init__(self, cli: Cli, budget: float | None, *, has_price: bool) -> None:
        self._stream, self._budget, self._has_price = cli.stderr, budget, has_price
        self._is_terminal = cli.stderr.isatty()
        self._last = 0.0
        self._open = False

    def show(self, progress: "RunProgress") -> None:
        if self._is_terminal:
            terminal = getattr(self._stream, "terminal", self._stream)
            text = escape_controls(self.text(progress))[: _columns(self._stream) - 1]
            terminal.write(f"\r\x1b[K{text}")
            self._open = True
        elif progress.seconds - self._last >= PLAIN_PROGRESS_SECONDS:
            self._last = progress.seconds
            self._stream.write(f"{self.text(progress)}\n")
        self._stream.flush()

    def text(self, progress: "RunProgress") -> str:
        counts = progress.counts
        ended = progress.total - counts["pending"] - counts["leased"]
        share = ended / progress.total if progress.total else 1.0
        full = round(share * 20)
        cap = f" of ${self._budget:,.2f}" if self._budget is not None else ""
        parts = [
            "█" * full + "░" * (20 - full) + f" {ended:,}/{progress.total:,}",
            *(f"{counts[name]:,} {name}" for name in ("discarded", "failed") if counts[name]),
            f"{counts['leased']:,} running",
            f"{progress.rate * 60:,.1f}/min",
            *([f"${progress.cost_usd:,.2f}{cap}"] if self._has_price else []),
        ]
        if progress.eta_seconds is not None and ended < progress.total:
            parts.append(f"{human_duration(progress.eta_seconds)} left")
        return "  ".join(parts)

    def end(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

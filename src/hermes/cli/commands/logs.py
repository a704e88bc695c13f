"""`hermes logs`: read the log files, old and new, text and JSON."""

import argparse
import time
from pathlib import Path

from hermes.app.log_files import COMPONENTS, FILES, LogEntry, as_json, as_text
from hermes.cli.context import Cli, Command
from hermes.core.errors import UsageError
from hermes.ops.logs import LEVELS, LogFilter, files_of, follow, last_entries
from hermes.util.text import human_size, parse_duration

NAMES = tuple(name.removesuffix(".log") for name in FILES)
LIST = "list"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Read the log files of this profile."
    parser.add_argument(
        "log", nargs="?", default=NAMES[0], choices=(*NAMES, LIST), help="which one (agent)"
    )
    parser.add_argument(
        "-n", "--lines", type=int, default=50, metavar="N", help="how many entries (50)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as new ones come")
    parser.add_argument(
        "--level", type=str.upper, choices=LEVELS, default="", help="this one and worse"
    )
    parser.add_argument("--session", default="", metavar="ID", help="of one session")
    parser.add_argument("--since", default="", metavar="AGO", help="not older than 30s, 5m, 2h, 1d")
    parser.add_argument("--component", choices=COMPONENTS, default="", help="of one part")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(args: argparse.Namespace, cli: Cli) -> int:
    if args.log == LIST:
        return _list(cli, args.json)
    if args.lines < 0:
        raise UsageError("--lines cannot be negative")
    path = cli.home.logs / f"{args.log}.log"
    wanted = LogFilter(args.level, args.session, args.component, _since(args.since))
    if not files_of(path):
        cli.note(f"there is no log {args.log} yet ({path})")
        return 1
    form = as_json if args.json else as_text

    def show(entry: LogEntry) -> None:
        cli.say(form(entry) if entry.level else entry.message)

    end = path.stat().st_size
    for entry in last_entries(path, args.lines, wanted, end):
        show(entry)
    try:
        for entry in follow(path, wanted, end) if args.follow else ():
            show(entry)
    except KeyboardInterrupt:
        return 0
    return 0


def _since(text: str) -> float:
    if not text:
        return 0.0
    seconds = parse_duration(text)
    if seconds is None:
        raise UsageError(f"--since cannot be {text!r}", hint="for example 30s, 5m, 2h or 1d")
    return time.time() - seconds


def _list(cli: Cli, as_document: bool) -> int:
    files = [file for name in FILES for file in files_of(cli.home.logs / name)]
    if as_document:
        cli.json([{"path": str(file), "bytes": file.stat().st_size} for file in files])
    elif not files:
        cli.say(f"no logs yet in {cli.home.logs}")
    for file in () if as_document else files:
        cli.say(_line(file))
    return 0


def _line(file: Path) -> str:
    status = file.stat()
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.st_mtime))
    return f"{file.name:<16} {human_size(status.st_size):>9}  {changed}"


COMMAND = Command(configure, run)

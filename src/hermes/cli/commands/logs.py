"""`hermes logs`: read the log files, old and new, text and JSON."""

import time
from argparse import Namespace
from pathlib import Path

from hermes.app import LogFileEntry, as_json, as_text
from hermes.app.log_files import COMPONENTS, FILES
from hermes.cli.context import Cli, Command, arg, flag
from hermes.core.errors import UsageError
from hermes.ops import LogFilter, files_of, follow, last_entries
from hermes.ops.logs import LEVELS
from hermes.util.text import human_size, parse_duration

NAMES = tuple(name.removesuffix(".log") for name in FILES)
LIST = "list"


def run(args: Namespace, cli: Cli) -> int:
    if args.log == LIST:
        return _list(cli)
    if args.lines < 0:
        raise UsageError("--lines cannot be negative")
    path = cli.home.logs / f"{args.log}.log"
    wanted = LogFilter(args.level, args.session, args.component, _since(args.since))
    if not files_of(path):
        cli.note(f"there is no log {args.log} yet ({path})")
        return 1
    form = as_json if args.json else as_text

    def show(entry: LogFileEntry) -> None:
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


def _list(cli: Cli) -> int:
    files = [file for name in FILES for file in files_of(cli.home.logs / name)]
    facts = [{"path": str(file), "bytes": file.stat().st_size} for file in files]
    cli.emit(facts, map(_line, files), empty=f"no logs yet in {cli.home.logs}")
    return 0


def _line(file: Path) -> str:
    status = file.stat()
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.st_mtime))
    return f"{file.name:<16} {human_size(status.st_size):>9}  {changed}"


COMMAND = Command(
    "logs",
    run,
    "Read the log files of this profile.",
    arg("log", nargs="?", default=NAMES[0], choices=(*NAMES, LIST), help="which one (agent)"),
    arg("-n", "--lines", type=int, default=50, metavar="N", help="how many entries (50)"),
    flag("-f", "--follow", help="print new lines as they are written"),
    arg("--level", type=str.upper, choices=LEVELS, default="", help="this one and worse"),
    arg("--session", default="", metavar="ID", help="of one session"),
    arg("--since", default="", metavar="AGO", help="not older than 30s, 5m, 2h, 1d"),
    arg("--component", choices=COMPONENTS, default="", help="of one part"),
    flag("--json", help="one JSON object a line"),
)

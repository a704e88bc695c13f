"""`hermes doctor`, `debug`, `dump` and `logs`: find problems, fix them, and describe them."""

import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from hermes import ops
from hermes.app import LogFileEntry, as_json, as_text, start_logging, stop_logging, stored_secrets
from hermes.app.log_files import COMPONENTS, FILES
from hermes.cli.context import Cli, Command, arg, flag
from hermes.config.environment import variable
from hermes.config.home import tilde
from hermes.core.errors import HermesError, UsageError
from hermes.ops.debug_report import parts
from hermes.ops.doctor import run as doctor
from hermes.ops.doctor.check import LEVELS
from hermes.ops.logs import LEVELS as LOG_LEVELS
from hermes.security import Redactor
from hermes.tui import Paint, safe, terminal_depth, wrap
from hermes.util.concurrency import SystemClock
from hermes.util.text import escape_controls, human_size, many, parse_duration

MARKS: dict[ops.Level, str] = {"ok": "✓", "warning": "!", "problem": "✗"}
PLAIN_MARKS: dict[ops.Level, str] = {"ok": "+", "warning": "!", "problem": "x"}
NARROWEST, WIDEST = 30, 100


async def run_doctor(args: Namespace, cli: Cli) -> int:
    redact = _redactor(cli).redact
    columns = shutil.get_terminal_size().columns
    encoding = getattr(cli.stdout, "encoding", None) or "utf-8"
    screen = ops.TerminalInfo(
        is_terminal=cli.stdout.isatty(),
        columns=columns,
        encoding=encoding,
        term=variable("TERM") or "",
        colours=int(terminal_depth()),
    )
    try:
        seen = await doctor.run_doctor(
            cli.home, SystemClock(), fix=args.fix, offline=args.offline, screen=screen
        )
    finally:
        stop_logging()
    outcomes = [_without_secrets(outcome, redact) for outcome in seen]
    width = max(NARROWEST, min(columns, WIDEST)) if cli.stdout.isatty() else WIDEST
    marks = MARKS if "utf" in encoding.lower() else PLAIN_MARKS
    cli.emit(_report_facts(outcomes), report(outcomes, cli.paint, width, marks))
    return 1 if _count(outcomes, "problem") else 0


def _redactor(cli: Cli) -> Redactor:
    """Return a redactor that knows the secrets, and send log records to the log files."""
    loaded = ops.best_settings(cli.home)
    if loaded is None:
        return Redactor()
    secrets = loaded.secrets()
    with suppress(HermesError):  # a check reports what is wrong with the file
        secrets |= stored_secrets(cli.home)
    redactor = Redactor(secrets)
    if cli.home.root.is_dir():
        start_logging(cli.home, loaded.settings.logging, redactor)
    return redactor


def _without_secrets(outcome: ops.Outcome, redact: Callable[[str], str]) -> ops.Outcome:
    """Redact findings: an error can quote its input."""
    replace = msgspec.structs.replace
    found = [replace(f, text=redact(f.text), advice=redact(f.advice)) for f in outcome.found]
    return replace(outcome, found=tuple(found), fixed=tuple(map(redact, outcome.fixed)))


def report(
    outcomes: list[ops.Outcome], paint: Paint, width: int, marks: dict[ops.Level, str]
) -> Iterator[str]:
    """Return the report as lines of at most `width` columns."""

    def paragraph(role: str, head: str, text: str) -> Iterator[str]:
        for at, line in enumerate(wrap(" ".join(safe(text).split()), width - len(head))):
            yield paint(role, f"{' ' * len(head) if at else head}{line}")

    roles = {"ok": "text", "warning": "warn", "problem": "error"}
    arrow = "    → " if marks is MARKS else "    > "
    for group, members in groupby(outcomes, key=lambda outcome: outcome.group):
        yield paint("strong", group)
        for outcome in members:
            for done in outcome.fixed:
                yield from paragraph("text", f"  {marks['ok']} ", f"{outcome.name}: {done}")
            for found in outcome.found:
                head = f"  {marks[found.level]} "
                yield from paragraph(roles[found.level], head, f"{outcome.name}: {found.text}")
                yield from paragraph("dim", arrow, found.advice) if found.advice else ()
    problems, warnings = _count(outcomes, "problem"), _count(outcomes, "warning")
    total = f"{many(len(outcomes), 'check')}: no problems."
    if problems or warnings:
        total = f"{many(len(outcomes), 'check')}: {many(problems, 'problem')}"
        total += f", {many(warnings, 'warning')}."
    if any(each.fix for outcome in outcomes for each in outcome.found):
        total += " `hermes doctor --fix` fixes some of it."
    yield from ("", *wrap(total, width))


def _count(outcomes: list[ops.Outcome], level: ops.Level) -> int:
    return sum(found.level == level for outcome in outcomes for found in outcome.found)


def _report_facts(outcomes: list[ops.Outcome]) -> dict[str, Any]:
    return {
        "ok": not _count(outcomes, "problem"),
        "counts": {level: _count(outcomes, level) for level in LEVELS},
        "checks": [
            {
                "group": outcome.group,
                "name": outcome.name,
                "level": outcome.level,
                "seconds": outcome.seconds,
                "mended": outcome.fixed,
                "findings": [
                    {"level": f.level, "text": f.text, "advice": f.advice, "can_mend": bool(f.fix)}
                    for f in outcome.found
                ],
            }
            for outcome in outcomes
        ],
    }


DOCTOR = Command(
    "doctor",
    run_doctor,
    "Find what is wrong with this installation and say what to do about it.",
    flag("--fix", help="fix what can be fixed safely"),
    flag("--offline", help="ask no other machine"),
    json=True,
)


# `hermes debug share`: a file for a bug report without secrets and personal data.

MOST_LINES = 10_000


DEBUG = Command("debug")


@DEBUG.action(
    "share",
    "write a file with a summary and the ends of the log files",
    arg("--lines", type=int, default=200, metavar="N", help="lines of each log file (200)"),
    arg("--expire", type=int, metavar="DAYS", help="has no effect: nothing is uploaded"),
    flag("--local", help="only the file, without the remark"),
    arg("-o", "--output", type=Path, metavar="FILE", help="a text, or an archive (.tar.gz)"),
)
async def _share(args: Namespace, cli: Cli) -> None:
    if not 0 <= args.lines <= MOST_LINES:
        raise UsageError(f"--lines must be 0 to {MOST_LINES}")
    if args.expire is not None and args.expire < 1:
        raise UsageError("--expire must be at least 1 day")
    found = await parts(cli.home, ops.best_settings(cli.home), args.lines)
    path = args.output.expanduser() if args.output else ops.bundle_path(cli.home)
    ops.write(path, found)
    cli.say(f"{tilde(path.absolute())} ({human_size(path.stat().st_size)}) holds")
    for part in found:
        cli.say(f"  {part.name:<12} {many(part.text.count(chr(10)) + 1, 'line')}")
    if not args.local:
        cli.say("Nothing was sent: there is no upload service. Look through the file, then attach")
        cli.say("it to your report. Secrets and personal things were taken out of it.")
        if args.expire is not None:
            cli.say("--expire has no effect on a file: delete it when it is no longer needed.")


# `hermes dump`: a short summary for a bug report.


async def run_dump(args: Namespace, cli: Cli) -> None:
    text = await ops.summary(cli.home, ops.best_settings(cli.home), show_keys=args.show_keys)
    cli.say(safe(text))


DUMP = Command(
    "dump",
    run_dump,
    "Print a summary for a bug report: versions, model, settings, keys.",
    flag("--show-keys", help="show the ends of keys, to tell them apart"),
)


# `hermes logs`: read the log files, old and new, text and JSON.

LOG_NAMES = tuple(name.removesuffix(".log") for name in FILES)
LIST = "list"


def run_logs(args: Namespace, cli: Cli) -> int:
    if args.log == LIST:
        files = [file for name in FILES for file in ops.files_of(cli.home.logs / name)]
        facts = [{"path": str(file), "bytes": file.stat().st_size} for file in files]
        cli.emit(facts, map(_file_line, files), empty=f"no logs yet in {cli.home.logs}")
        return 0
    if args.lines < 0:
        raise UsageError("--lines cannot be negative")
    path, since = cli.home.logs / f"{args.log}.log", 0.0
    if args.since:
        seconds = parse_duration(args.since)
        if seconds is None:
            hint = "for example 30s, 5m, 2h or 1d"
            raise UsageError(f"--since cannot be {args.since!r}", hint=hint)
        since = time.time() - seconds
    wanted = ops.LogFilter(args.level, args.session, args.component, since)
    if not ops.files_of(path):
        cli.note(f"there is no log {args.log} yet ({path})")
        return 1
    form = as_json if args.json else as_text

    def show(entry: LogFileEntry) -> None:
        cli.show(escape_controls(form(entry) if entry.level else entry.message))

    end = path.stat().st_size
    for entry in ops.last_entries(path, args.lines, wanted, end):
        show(entry)
    with suppress(KeyboardInterrupt):
        for entry in ops.follow(path, wanted, end) if args.follow else ():
            show(entry)
    return 0


def _file_line(file: Path) -> str:
    status = file.stat()
    changed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.st_mtime))
    return f"{file.name:<16} {human_size(status.st_size):>9}  {changed}"


LOGS = Command(
    "logs",
    run_logs,
    "Read the log files of this profile.",
    arg(
        "log", nargs="?", default=LOG_NAMES[0], choices=(*LOG_NAMES, LIST), help="which one (agent)"
    ),
    arg("-n", "--lines", type=int, default=50, metavar="N", help="how many entries (50)"),
    flag("-f", "--follow", help="print new lines as they are written"),
    arg("--level", type=str.upper, choices=LOG_LEVELS, default="", help="this one and worse"),
    arg("--session", default="", metavar="ID", help="of one session"),
    arg("--since", default="", metavar="AGO", help="not older than 30s, 5m, 2h, 1d"),
    arg("--component", choices=COMPONENTS, default="", help="of one part"),
    flag("--json", help="one JSON object a line"),
)

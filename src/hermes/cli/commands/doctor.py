"""`hermes doctor`: find problems, name the next step, and fix what can be fixed safely."""

import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from hermes.app import start_logging, stop_logging, stored_secrets
from hermes.cli.context import Cli, Command, arg, flag
from hermes.config.environment import variable
from hermes.config.home import tilde
from hermes.core.errors import HermesError, UsageError
from hermes.ops import (
    DoctorFinding,
    Level,
    Outcome,
    TerminalInfo,
    best_settings,
    bundle_path,
    summary,
    write,
)
from hermes.ops.debug_report import parts
from hermes.ops.doctor import run as doctor
from hermes.ops.doctor.check import LEVELS
from hermes.security import Redactor
from hermes.tui import Paint, safe, terminal_depth, wrap
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_size, many

MARKS: dict[Level, str] = {"ok": "✓", "warning": "!", "problem": "✗"}
PLAIN_MARKS: dict[Level, str] = {"ok": "+", "warning": "!", "problem": "x"}
NARROWEST, WIDEST = 30, 100


async def run_doctor(args: Namespace, cli: Cli) -> int:
    redact = _redactor(cli).redact
    columns = shutil.get_terminal_size().columns
    encoding = getattr(cli.stdout, "encoding", None) or "utf-8"
    screen = TerminalInfo(
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
    loaded = best_settings(cli.home)
    if loaded is None:
        return Redactor()
    secrets = loaded.secrets()
    with suppress(HermesError):  # a check reports what is wrong with the file
        secrets |= stored_secrets(cli.home)
    redactor = Redactor(secrets)
    if cli.home.root.is_dir():
        start_logging(cli.home, loaded.settings.logging, redactor)
    return redactor


def _without_secrets(outcome: Outcome, redact: Callable[[str], str]) -> Outcome:
    """Redact findings: an error can quote its input."""
    found = (
        msgspec.structs.replace(each, text=redact(each.text), advice=redact(each.advice))
        for each in outcome.found
    )
    return msgspec.structs.replace(
        outcome, found=tuple(found), fixed=tuple(map(redact, outcome.fixed))
    )


def report(
    outcomes: list[Outcome], paint: Paint, width: int, marks: dict[Level, str]
) -> Iterator[str]:
    """Return the report as lines of at most `width` columns."""
    for group, members in groupby(outcomes, key=lambda outcome: outcome.group):
        yield paint("strong", group)
        for outcome in members:
            for done in outcome.fixed:
                yield from _paragraph(f"  {marks['ok']} ", f"{outcome.name}: {done}", width)
            for found in outcome.found:
                yield from _lines(outcome.name, found, paint, width, marks)
    yield ""
    yield from wrap(_total_line(outcomes), width)


def _lines(
    name: str, found: DoctorFinding, paint: Paint, width: int, marks: dict[Level, str]
) -> Iterator[str]:
    role = {"ok": "text", "warning": "warn", "problem": "error"}[found.level]
    for line in _paragraph(f"  {marks[found.level]} ", f"{name}: {found.text}", width):
        yield paint(role, line)
    if found.advice:
        arrow = "    → " if marks is MARKS else "    > "
        for line in _paragraph(arrow, found.advice, width):
            yield paint("dim", line)


def _paragraph(head: str, text: str, width: int) -> Iterator[str]:
    lines = wrap(" ".join(safe(text).split()), width - len(head))
    for number, line in enumerate(lines):
        yield f"{' ' * len(head) if number else head}{line}"


def _total_line(outcomes: list[Outcome]) -> str:
    problems, warnings = _count(outcomes, "problem"), _count(outcomes, "warning")
    if not problems and not warnings:
        return f"{many(len(outcomes), 'check')}: no problems."
    found = f"{many(len(outcomes), 'check')}: {many(problems, 'problem')}"
    found += f", {many(warnings, 'warning')}."
    can_fix = any(each.fix for outcome in outcomes for each in outcome.found)
    return found + (" `hermes doctor --fix` fixes some of it." if can_fix else "")


def _count(outcomes: list[Outcome], level: Level) -> int:
    return sum(found.level == level for outcome in outcomes for found in outcome.found)


def _report_facts(outcomes: list[Outcome]) -> dict[str, Any]:
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
                    {
                        "level": found.level,
                        "text": found.text,
                        "advice": found.advice,
                        "can_mend": found.fix is not None,
                    }
                    for found in outcome.found
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
    epilog="""\
examples:
  hermes doctor              look at everything; a few seconds
  hermes doctor --offline    without asking the model's endpoint
  hermes doctor --fix        also fix what can be fixed without losing anything:
                             permissions, a missing home, older forms in config.yaml, the
                             search index, damaged caches, files of crashed runs

exit code: 0 when there is no problem (warnings may be left), 1 when there is one
""",
)


# `hermes debug share`: a file for a bug report without secrets and personal data.

MOST_LINES = 10_000


DEBUG = Command("debug", description="Create a report for people who help you.")


@DEBUG.action(
    "share",
    "write a file with a summary and the ends of the log files",
    arg("--lines", type=int, default=200, metavar="N", help="lines of each log file (200)"),
    arg("--expire", type=int, metavar="DAYS", help="has no effect: nothing is uploaded"),
    flag("--local", help="only the file, without the remark"),
    arg("-o", "--output", type=Path, metavar="FILE", help="a text, or an archive (.tar.gz)"),
    epilog="""\
examples:
  hermes debug share
  hermes debug share --lines 500 -o report.tar.gz

Keys, tokens, passwords, e-mail addresses, telephone numbers, your name and the path of your folder
are taken out; conversations are not in it. Check the file before you send it.
""",
)
async def _share(args: Namespace, cli: Cli) -> None:
    if not 0 <= args.lines <= MOST_LINES:
        raise UsageError(f"--lines must be 0 to {MOST_LINES}")
    if args.expire is not None and args.expire < 1:
        raise UsageError("--expire must be at least 1 day")
    found = await parts(cli.home, best_settings(cli.home), args.lines)
    path = args.output.expanduser() if args.output else bundle_path(cli.home)
    write(path, found)
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
    text = await summary(cli.home, best_settings(cli.home), show_keys=args.show_keys)
    cli.say(safe(text))


DUMP = Command(
    "dump",
    run_dump,
    "Print a summary for a bug report: versions, model, settings, keys.",
    flag("--show-keys", help="show the ends of keys, to tell them apart"),
    epilog="""\
examples:
  hermes dump
  hermes dump --show-keys    with the first and last four characters of long keys

Values of keys, personal paths, names and e-mail addresses are not in it. `hermes debug share`
makes a file with this and the ends of the log files.
""",
)

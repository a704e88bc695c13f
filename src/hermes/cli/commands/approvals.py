"""`hermes approvals`: which commands need approval, why, and which are approved permanently."""

import io
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.cli.context import Cli, Command, arg, flag, table
from hermes.core.errors import UsageError
from hermes.security import CommandVerdict, PathGuard, danger_classes, examine, judge_command

STDIN = "-"
ALLOWLIST = "command_allowlist"


COMMAND = Command(
    "approvals",
    description="Show which commands need approval, and which are approved permanently.",
)


@COMMAND.action(
    "test",
    "say whether a command is allowed, asked about or refused",
    arg("command", help="in quotes; - reads one a line from stdin, plain or as JSON strings"),
    arg("--cwd", default=".", metavar="DIR", help="where it would run (here)"),
    flag("--json", help="one JSON object a line"),
)
def _test(args: Namespace, cli: Cli) -> None:
    folder = Path(args.cwd).expanduser()
    if not folder.is_dir():
        raise UsageError(f"--cwd {args.cwd!r} is not a folder")
    folder = folder.resolve()
    own = tuple(dict.fromkeys((cli.home.root, cli.home.default_root)))
    guard = PathGuard(home=Path.home(), workspace=(folder,), own=own)
    settings = cli.load().settings
    mode, allowlist = settings.approvals.mode, settings.command_allowlist

    def verdict(command: str) -> CommandVerdict:
        return judge_command(command, examine(command, guard, str(folder)), mode, allowlist)

    show = _explain_verdict if args.command != STDIN else _verdict_line
    for command in [args.command] if args.command != STDIN else _read_commands(cli):
        found = verdict(command)
        cli.say(msgspec.json.encode(found).decode() if args.json else show(found))


def _read_commands(cli: Cli) -> Iterator[str]:
    """Read a command per line. A line that is a JSON string is decoded."""
    if isinstance(cli.stdin, io.TextIOWrapper):
        cli.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    for line in cli.stdin:
        text = line.rstrip("\r\n")
        try:
            yield msgspec.json.decode(text, type=str) if text.startswith('"') else text
        except msgspec.DecodeError:  # a command that begins with a quote
            yield text


def _verdict_line(verdict: CommandVerdict) -> str:
    command = " ".join(verdict.command.split())
    return f"{verdict.verdict:<7} {', '.join(verdict.classes) or '-':<24} {command}"


def _explain_verdict(verdict: CommandVerdict) -> str:
    lines: list[tuple[str, str]] = [("verdict", verdict.verdict)]
    if verdict.classes:
        lines.append(("class", ", ".join(verdict.classes)))
    if verdict.reasons and verdict.reason != "; ".join(verdict.reasons):
        lines.append(("because", verdict.reason))
    lines += [("reason", reason) for reason in verdict.reasons]
    lines.append(("programs", ", ".join(verdict.programs) or "none"))
    return "\n".join(f"{name:<9} {value}" for name, value in lines)


@COMMAND.action("list", "show the mode and what is always allowed", json=True)
def _list(_args: Namespace, cli: Cli) -> None:
    settings = cli.load().settings
    mode, timeout = settings.approvals.mode, settings.approvals.timeout
    allowed = settings.command_allowlist
    cli.emit(
        {"mode": mode, "timeout": timeout, ALLOWLIST: allowed},
        f"approvals.mode     {mode}\napprovals.timeout  {timeout:g} s\n"
        f"{ALLOWLIST}  {', '.join(allowed) or 'nothing is always allowed'}",
    )


@COMMAND.action("classes", "list the classes of commands that are asked about", json=True)
def _classes(_args: Namespace, cli: Cli) -> None:
    found = danger_classes()
    marks = ("", " (always refused)")
    rows = [(each.kind, f"{'; '.join(each.reasons)}{marks[each.refused]}") for each in found]
    facts = [{"class": c.kind, "reasons": c.reasons, "refused": c.refused} for c in found]
    cli.emit(facts, table(rows))


@COMMAND.action(
    "forget",
    "ask again about a class that was always allowed",
    arg("kind", metavar="CLASS", help="as `hermes approvals list` shows it"),
)
def _forget(args: Namespace, cli: Cli) -> None:
    wanted = args.kind.strip().lower()
    held = cli.load().settings.command_allowlist
    places = [place for place, kind in enumerate(held) if kind.strip().lower() == wanted]
    if not places:
        known = ", ".join(held) or "nothing"
        raise UsageError(f"{args.kind!r} is not in {ALLOWLIST}", hint=f"it holds {known}")
    from hermes.config import edit  # ruamel.yaml, needed only to write

    for place in reversed(places):
        edit.unset_value(cli.home, (ALLOWLIST, str(place)))
    cli.say(f"{args.kind} will be asked about again")

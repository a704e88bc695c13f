"""`hermes approvals`: which commands need approval, why, and which are approved permanently."""

import argparse
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.cli.context import Actions, Cli, Command
from hermes.core.errors import UsageError
from hermes.security import CommandVerdict, PathGuard, examine, judge_command
from hermes.security.danger.catalog import danger_classes

STDIN = "-"
ALLOWLIST = "command_allowlist"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show which commands need approval, and which are approved permanently."
    action = Actions(parser).add
    test = action("test", _test, "say whether a command is allowed, asked about or refused")
    test.add_argument(
        "command",
        help="in quotes; - reads one a line from standard input (a JSON string if need be)",
    )
    test.add_argument("--cwd", default=".", metavar="DIR", help="where it would run (here)")
    test.add_argument("--json", action="store_true", help="one JSON object a line")
    action("list", _list, "show the mode and what is always allowed", json=True)
    action("classes", _classes, "list the classes of commands that are asked about", json=True)
    forget = action("forget", _forget, "ask again about a class that was always allowed")
    forget.add_argument("kind", metavar="CLASS", help="as `hermes approvals list` shows it")


def _test(args: argparse.Namespace, cli: Cli) -> int:
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

    if args.command != STDIN:
        found = verdict(args.command)
        cli.say(_verdict_json(found) if args.json else _explain_verdict(found))
        return 0
    for command in _read_commands(cli):
        found = verdict(command)
        cli.say(_verdict_json(found) if args.json else _verdict_line(found))
    return 0


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


def _verdict_json(verdict: CommandVerdict) -> str:
    return msgspec.json.encode(verdict).decode()


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


def _list(args: argparse.Namespace, cli: Cli) -> int:
    settings = cli.load().settings
    mode, timeout = settings.approvals.mode, settings.approvals.timeout
    allowed = settings.command_allowlist
    if args.json:
        cli.json({"mode": mode, "timeout": timeout, ALLOWLIST: allowed})
        return 0
    cli.say(f"approvals.mode     {mode}")
    cli.say(f"approvals.timeout  {timeout:g} s")
    cli.say(f"{ALLOWLIST}  {', '.join(allowed) or 'nothing is always allowed'}")
    return 0


def _classes(args: argparse.Namespace, cli: Cli) -> int:
    found = danger_classes()
    if args.json:
        cli.json([{"class": c.kind, "reasons": c.reasons, "refused": c.refused} for c in found])
        return 0
    width = max(len(each.kind) for each in found)
    for each in found:
        mark = " (always refused)" if each.refused else ""
        cli.say(f"{each.kind:<{width}}  {'; '.join(each.reasons)}{mark}")
    return 0


def _forget(args: argparse.Namespace, cli: Cli) -> int:
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
    return 0


COMMAND = Command(configure)

"""`hermes status` and `hermes version`."""

import argparse
import asyncio
import platform
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from hermes import __version__
from hermes.app.git import GitFailed, UserGit
from hermes.app.installation import Checkout, installation
from hermes.app.providers import Providers
from hermes.cli.commands.model import format_fact, resolution_line, resolution_lines
from hermes.cli.context import Cli, Command, ProgressLine, Style
from hermes.config.settings.agent import BudgetSettings
from hermes.ops.status import Status, status_of
from hermes.util.concurrency import SystemClock
from hermes.util.text import many

STATUS_EPILOG = """\
examples:
  hermes status            which model answers, why, and what it may spend
  hermes status --all      every auxiliary task and every provider too
  hermes status --deep     also asks the endpoint whether it answers

exit code: 0 when the model of conversations can be used, 1 when not
"""


def configure_status(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what is set up and how it fares."
    parser.epilog = STATUS_EPILOG
    parser.add_argument("--all", action="store_true", help="every task and every provider")
    parser.add_argument("--deep", action="store_true", help="ask the endpoint whether it answers")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run_status(args: argparse.Namespace, cli: Cli) -> int:
    status = asyncio.run(_status(args, cli))
    if args.json:
        cli.json(msgspec.to_builtins(status))
    else:
        for line in _lines(status, Style.of(cli.stdout), everything=args.all):
            cli.say(line.rstrip())
    unreached = status.reached is not None and not status.reached.ok
    return 1 if status.models.main.problem or unreached else 0


async def _status(args: argparse.Namespace, cli: Cli) -> Status:
    loaded, clock = cli.load(), SystemClock()
    async with Providers(cli.home, loaded, clock, ProgressLine(cli.stderr)) as providers:
        return await status_of(cli.home, loaded, providers, clock, deep=args.deep)


def _lines(status: Status, style: Style, *, everything: bool) -> Iterator[str]:
    yield format_fact("hermes", f"{status.version}, profile {status.profile} ({status.home})")
    yield from resolution_lines(status.models, style)
    if status.reached is not None:
        dress = str if status.reached.ok else style.bad
        yield format_fact("reached", dress(status.reached.detail))
    for number, fallback in enumerate(status.models.fallbacks):
        yield format_fact("" if number else "fallback", resolution_line(fallback, style))
    yield from _auxiliary(status, style, everything=everything)
    yield format_fact("budget", _budget(status.budget, status.store.spent_today))
    sessions = many(status.store.sessions, "session")
    problem = status.store.problem
    yield format_fact(
        "store", style.bad(problem) if problem else f"{status.store.place}, {sessions}"
    )
    if everything:
        yield ""
        for provider in status.providers:
            state = ", ".join(provider.keys) or (
                "no key" if provider.needs_key else "no key needed"
            )
            yield f"  {provider.id:<16} {provider.label:<32} {state}"


def _auxiliary(status: Status, style: Style, *, everything: bool) -> Iterator[str]:
    """Return the auxiliary models by task, or one line if one model does all tasks."""
    tasks = {name: resolution_line(found, style) for name, found in status.models.auxiliary.items()}
    groups: dict[str, list[str]] = {}
    for name, text in tasks.items():
        groups.setdefault(text, []).append(name)
    for number, (text, names) in enumerate(groups.items()):
        who = ", ".join(names) if everything or len(groups) > 1 else "all tasks"
        yield format_fact("" if number else "auxiliary", f"{text}  {style.dim(who)}")


def _budget(budget: BudgetSettings, spent_today: float) -> str:
    caps = {name.removesuffix("_usd"): cap for name, cap in msgspec.structs.asdict(budget).items()}
    said = [f"${cap:g} a {name}" for name, cap in caps.items() if cap is not None]
    return f"{', '.join(said) or 'no cap'}; ${spent_today:.2f} spent today"


STATUS = Command(configure_status, run_status)


# `hermes version`.


def configure_version(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the version of hermes, what it runs on and where it is."
    parser.add_argument("--json", action="store_true", help="as a JSON object")


def run_version(args: argparse.Namespace, cli: Cli) -> int:
    facts = {
        "hermes": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "home": str(cli.home.root),
        **_program(),
    }
    if args.json:
        cli.json(facts)
    else:
        for name, value in facts.items():
            cli.say(f"{name:<8} {value}")
    return 0


def _program() -> dict[str, str]:
    """Return the place of the program, and its commit if git knows it."""
    found = installation()
    if not isinstance(found, Checkout):
        return {"program": f"installed by {found.installer}"}
    where = {"program": str(found.root)}
    if found.is_repository:
        with suppress(GitFailed):  # git is not installed or fails
            where |= asyncio.run(_commit(found))
    return where


async def _commit(checkout: Checkout) -> dict[str, str]:
    git = UserGit(checkout.root)
    commit = await git.line("rev-parse", "--short=12", "HEAD")
    changed = await git.line("status", "--porcelain", "--untracked-files=no")
    return {"commit": f"{commit} with local changes" if changed else commit} if commit else {}


VERSION = Command(configure_version, run_version)

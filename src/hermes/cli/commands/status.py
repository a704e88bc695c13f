"""`hermes status` and `hermes version`."""

import platform
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from hermes import __version__
from hermes.app import GitFailed, UserGit
from hermes.cli.commands.model import format_fact, open_providers, resolution_line, resolution_lines
from hermes.cli.context import Cli, Command, flag
from hermes.config.installation import Checkout, installation
from hermes.config.settings import BudgetSettings
from hermes.ops import Status, status_of
from hermes.tui import Paint
from hermes.util.concurrency import SystemClock
from hermes.util.text import many


async def run_status(args: Namespace, cli: Cli) -> int:
    loaded, clock = cli.load(), SystemClock()
    async with open_providers(cli) as providers:
        status = await status_of(cli.home, loaded, providers, clock, deep=args.deep)
    lines = _lines(status, cli.paint, everything=args.all)
    cli.emit(status, (line.rstrip() for line in lines))
    unreached = status.reached is not None and not status.reached.ok
    return 1 if status.models.main.problem or unreached else 0


def _lines(status: Status, paint: Paint, *, everything: bool) -> Iterator[str]:
    yield format_fact("hermes", f"{status.version}, profile {status.profile} ({status.home})")
    yield from resolution_lines(status.models, paint)
    if status.reached is not None:
        role = "text" if status.reached.ok else "error"
        yield format_fact("reached", paint(role, status.reached.detail))
    for number, fallback in enumerate(status.models.fallbacks):
        yield format_fact("" if number else "fallback", resolution_line(fallback, paint))
    yield from _auxiliary(status, paint, everything=everything)
    yield format_fact("budget", _budget(status.budget, status.store.spent_today))
    sessions = many(status.store.sessions, "session")
    problem = status.store.problem
    yield format_fact(
        "store", paint("error", problem) if problem else f"{status.store.place}, {sessions}"
    )
    if everything:
        yield ""
        for provider in status.providers:
            state = ", ".join(provider.keys) or (
                "no key" if provider.needs_key else "no key needed"
            )
            yield f"  {provider.id:<16} {provider.label:<32} {state}"


def _auxiliary(status: Status, paint: Paint, *, everything: bool) -> Iterator[str]:
    """Return the auxiliary models by task, or one line if one model does all tasks."""
    tasks = {name: resolution_line(found, paint) for name, found in status.models.auxiliary.items()}
    groups: dict[str, list[str]] = {}
    for name, text in tasks.items():
        groups.setdefault(text, []).append(name)
    for number, (text, names) in enumerate(groups.items()):
        who = ", ".join(names) if everything or len(groups) > 1 else "all tasks"
        yield format_fact("" if number else "auxiliary", f"{text}  {paint('dim', who)}")


def _budget(budget: BudgetSettings, spent_today: float) -> str:
    caps = {name.removesuffix("_usd"): cap for name, cap in msgspec.structs.asdict(budget).items()}
    said = [f"${cap:g} a {name}" for name, cap in caps.items() if cap is not None]
    return f"{', '.join(said) or 'no cap'}; ${spent_today:.2f} spent today"


STATUS = Command(
    "status",
    run_status,
    "Show what is set up and how it fares.",
    flag("--all", help="every task and every provider"),
    flag("--deep", help="ask the endpoint whether it answers"),
    json=True,
    epilog="""\
examples:
  hermes status            which model answers, why, and what it may spend
  hermes status --all      every auxiliary task and every provider too
  hermes status --deep     also asks the endpoint whether it answers

exit code: 0 when the model of conversations can be used, 1 when not
""",
)


# `hermes version`.


async def run_version(_args: Namespace, cli: Cli) -> None:
    facts = {
        "hermes": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "home": str(cli.home.root),
        **await _program(),
    }
    cli.emit(facts, (f"{name:<8} {value}" for name, value in facts.items()))


async def _program() -> dict[str, str]:
    """Return the place of the program, and its commit if git knows it."""
    found = installation()
    if not isinstance(found, Checkout):
        return {"program": f"installed by {found.installer}"}
    where = {"program": str(found.root)}
    if found.is_repository:
        git = UserGit(found.root)
        with suppress(GitFailed):  # git is not installed or fails
            commit = await git.line("rev-parse", "--short=12", "HEAD")
            changed = await git.line("status", "--porcelain", "--untracked-files=no")
            if commit:
                where["commit"] = f"{commit} with local changes" if changed else commit
    return where


VERSION = Command(
    "version",
    run_version,
    "Show the version of hermes, what it runs on and where it is.",
    flag("--json", help="as a JSON object"),
)

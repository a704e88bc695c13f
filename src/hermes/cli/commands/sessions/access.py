"""The store for an action, and how the work on it is shown."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hermes.app.session_store import opened_store, store_exists
from hermes.cli.actions import Act
from hermes.cli.commands.sessions.wording import document
from hermes.cli.context import Cli
from hermes.cli.progress import ProgressLine
from hermes.core.errors import SessionNotFound, UsageError
from hermes.core.ports import SessionInfo
from hermes.store.backend import Progress, ignore_progress
from hermes.store.session_store import SessionStore
from hermes.util.plain import plain_line

Work = Callable[[argparse.Namespace, Cli, SessionStore], Awaitable[int]]


def looking(work: Work, empty: Any = ()) -> Act:
    """An action that shows what there is; without a store, `empty`. Looking creates nothing."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        if _is_there(cli):
            return _run(work, args, cli)
        if args.json:
            document(cli, empty)
        else:
            cli.say("no sessions yet")
        return 0

    return act


def working(work: Work) -> Act:
    """An action on sessions that must be there."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        if not _is_there(cli):
            named = getattr(args, "session", None)
            what = f"there is no session {plain_line(named)}" if isinstance(named, str) else ""
            raise SessionNotFound(f"{what or 'there are no sessions'}: nothing was stored yet")
        return _run(work, args, cli)

    return act


def creating(work: Work) -> Act:
    """An action that makes the store when there is none."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        return _run(work, args, cli)

    return act


async def named(store: SessionStore, name: str) -> SessionInfo:
    """The session a user means."""
    return await store.resolve(plain_line(name))


async def named_exactly(store: SessionStore, name: str) -> SessionInfo:
    """The session to change or delete. A title means the session that has this very title, though
    another one may have gone on from it."""
    return await store.resolve(plain_line(name), exactly=True)


def shown_progress(cli: Cli, label: str) -> Progress:
    """Tells a person at a terminal how far the work is, and nobody else."""
    if not cli.stderr.isatty():
        return ignore_progress
    line = ProgressLine(cli.stderr, in_bytes=False)

    def report(done: int, total: int) -> None:
        if total:
            line.report(label, done, total)

    return report


def consents(args: argparse.Namespace, cli: Cli, question: str) -> bool:
    """Whether the user wants it: `--yes`, or an answer that is not the default, which is no."""
    if args.yes:
        return True
    if not cli.interactive:
        raise UsageError(
            "this needs --yes when nobody can be asked", hint=f"the question is: {question}"
        )
    return cli.ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _is_there(cli: Cli) -> bool:
    return store_exists(cli.home, cli.load().settings.store.url)


def _run(work: Work, args: argparse.Namespace, cli: Cli) -> int:
    async def run() -> int:
        url = cli.load().settings.store.url
        async with opened_store(cli.home, url, cli.note) as store:
            return await work(args, cli, store)

    return asyncio.run(run())

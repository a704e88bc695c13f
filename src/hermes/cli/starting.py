"""From the flags of `hermes chat` to an agent."""

import argparse
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.cli.context import Cli
from hermes.cli.extending import Consent, extended
from hermes.cli.scheduling import LateScheduler, jobs_beside
from hermes.config.loader import Loaded
from hermes.core.messages import User
from hermes.providers.local import DownloadProgress


@asynccontextmanager
async def started(
    loaded: Loaded,
    args: argparse.Namespace,
    cli: Cli,
    *,
    asker: Any,
    progress: DownloadProgress,
    consent: Consent | None,
    goes_on: bool = True,
) -> AsyncIterator[tuple[App, Agent, Path]]:
    """Everything is closed at the end. `asker` asks the user, `consent` about hooks; None: nobody
    is there."""
    async with _working_folder(args, loaded, cli) as folder:
        request = SessionRequest(
            resume=args.resume or args.go_on or "",
            latest=args.go_on is not None,
            source=args.source,
            working_folder=folder,
            approver=asker,
            clarifier=asker,
            read_secret=asker.secret if asker else None,
            skills=words(args.skills),
            toolsets=words([args.toolsets]),
            goes_on=goes_on,
            skip_context_files=args.ignore_rules,
            skip_memory=args.ignore_rules,
        )
        extensions = extended(loaded, cli, consent)
        async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
            app.services.scheduler = LateScheduler(app)
            await extensions.settle()
            agent = await app.agent(request)
            async with jobs_beside(app) if goes_on else nullcontext():
                yield app, agent, folder


@asynccontextmanager
async def _working_folder(
    args: argparse.Namespace, loaded: Loaded, cli: Cli
) -> AsyncIterator[Path]:
    """Where the agent works: here, or in a worktree that is closed afterwards."""
    here = Path.cwd()
    if not (args.worktree or loaded.settings.worktree):
        yield here
        return
    opening = import_module("hermes.ops.worktrees").open_worktree
    worktree = await opening(here, "", cli.note)
    cli.note(f"working in {worktree.folder} (branch {worktree.branch})")
    os.chdir(worktree.folder)
    try:
        yield worktree.folder
    finally:
        os.chdir(here)
        cli.note(await worktree.close())


def with_images(message: User, files: Iterable[Path]) -> User:
    """The message with pictures. Raises `UsageError`."""
    files = list(files)
    if not files:
        return message
    images = import_module("hermes.tui.clipboard").Images()
    for file in files:
        images.add_file(file)
    return User((*message.parts, *images.take()))


def words(given: Iterable[str]) -> tuple[str, ...]:
    """Names with commas between, said in one go or in several."""
    return tuple(name.strip() for each in given for name in each.split(",") if name.strip())

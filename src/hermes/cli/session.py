"""Sessions at the terminal: open an agent, run a turn, run subcommands as slash commands."""

import argparse
import asyncio
import io
import math
import os
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.agent import Agent
from hermes.app import (
    App,
    CommandCall,
    CommandHandler,
    SessionRequest,
    command_handlers,
    start_logging,
)
from hermes.cli.context import Cli, run_command
from hermes.cli.extensions import HookApprover, load_extensions
from hermes.cli.main import find_entry
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded, load
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.ports import Scheduler
from hermes.providers.local import DownloadProgress

if TYPE_CHECKING:
    from hermes.tui import Renderer  # it would load the terminal interface for a single answer


@asynccontextmanager
async def open_session(
    loaded: Loaded,
    args: argparse.Namespace,
    cli: Cli,
    *,
    asker: Any,
    progress: DownloadProgress,
    approve_hook: HookApprover | None,
    goes_on: bool = True,
    about: str = "",
) -> AsyncIterator[tuple[App, Agent, Path]]:
    """Open the app and the agent for the flags of `hermes chat`; close both at the end.

    `asker` asks the user and `approve_hook` asks about hooks. Both are None without a user.
    """
    async with _working_folder(args, loaded, cli) as folder:
        request = SessionRequest(
            resume=args.resume or args.go_on or "",
            latest=args.go_on is not None,
            source=args.source,
            working_folder=folder,
            approver=asker,
            permission_mode=loaded.settings.approvals.permission_mode,
            clarifier=asker,
            read_secret=asker.secret if asker else None,
            patience=math.inf,
            skills=split_names(args.skills),
            toolsets=split_names([args.toolsets]),
            goes_on=goes_on,
            about=about,
            skip_context_files=args.ignore_rules,
            skip_memory=args.ignore_rules,
        )
        extensions = load_extensions(loaded, cli, approve_hook)
        async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
            app.services.scheduler = cast("Scheduler", LazyScheduler(app))
            connect_trainer(app)
            await extensions.settle()
            agent = await app.agent(request)
            if not goes_on:
                yield app, agent, folder
                return
            from hermes.cli.scheduling import run_jobs_in_background  # not for a single turn

            async with run_jobs_in_background(app):
                yield app, agent, folder


def connect_trainer(app: App) -> None:
    """Let the sessions of the app train models, if a trainer is configured."""
    if app.loaded.settings.rl.trainer_command.strip():
        from hermes.envs import TrainingService  # few users train models

        app.services.trainer = TrainingService(app.home, app.loaded)


class LazyScheduler:
    """A `core.ports.Scheduler` that creates its `JobService` on first use."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.wake: Callable[[], None] = lambda: None
        """Called when a job may be due earlier than before."""

    @cached_property
    def _service(self) -> Scheduler:
        # A chat that schedules nothing does not load them.
        from hermes.cli.scheduling import target_check
        from hermes.cron import JobService

        app = self._app
        return JobService.for_home(
            app.home,
            app.loaded,
            app.store.runs,
            app.clock,
            check_target=target_check(app.home, app.loaded),
            on_change=lambda: self.wake(),
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # an error in `_service` must not ask for `_service` again
            raise AttributeError(name)
        return getattr(self._service, name)


@asynccontextmanager
async def _working_folder(
    args: argparse.Namespace, loaded: Loaded, cli: Cli
) -> AsyncIterator[Path]:
    """Return the current folder, or a new git worktree that is closed at the end."""
    here = Path.cwd()
    if not (args.worktree or loaded.settings.worktree):
        yield here
        return
    from hermes.ops import open_worktree  # only with --worktree

    worktree = await open_worktree(here, "", cli.note)
    cli.note(f"working in {worktree.folder} (branch {worktree.branch})")
    os.chdir(worktree.folder)
    try:
        yield worktree.folder
    finally:
        os.chdir(here)
        cli.note(await worktree.close())


def with_images(message: User, files: Iterable[Path]) -> User:
    """Add pictures to a message. Raises `UsageError` if a file is not a picture."""
    files = list(files)
    if not files:
        return message
    from hermes.tui import ImageAttachments  # only for a message with pictures

    images = ImageAttachments()
    for file in files:
        images.add_file(file)
    return User((*message.parts, *images.take()))


def split_names(given: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated names, given in one option or in several."""
    return tuple(name.strip() for each in given for name in each.split(",") if name.strip())


# One turn at the terminal.


async def run_turn(agent: Agent, message: User | None, renderer: "Renderer") -> int:
    """Run and show a turn; return the exit code. Without a message, resume the interrupted turn."""
    exit_code = 0
    with stop_turn_on_signals(agent):
        async for event in agent.resume() if message is None else agent.run(message):
            renderer.show(event)
            if isinstance(event, TurnFinished):
                exit_code = event.exit_code
    return exit_code


@contextmanager
def stop_turn_on_signals(agent: Agent) -> Iterator[None]:
    """Stop the turn on Ctrl-C and SIGTERM; a second Ctrl-C ends the program."""
    loop = asyncio.get_running_loop()

    def stop(reason: str) -> None:
        if not agent.interrupt(reason):
            raise Interrupted
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop, "stopped by Ctrl-C")
    loop.add_signal_handler(signal.SIGTERM, stop, "stopped by SIGTERM")
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


# Slash commands that run a subcommand and show its output.

SLASH_SUBCOMMANDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "config": ("config", ("show",), "explain"),
    "sessions": ("sessions", ("list",), ""),
    "tools": ("tools", ("list",), ""),
    "skills": ("skills", ("list",), "search"),
    "plugins": ("plugins", ("list",), ""),
    "insights": ("insights", (), "--days"),
    "debug": ("dump", (), ""),
    "doctor": ("doctor", (), ""),
    "mcp": ("mcp", ("list",), ""),
    "memory": ("memory", ("show",), "show"),
    "cron": ("cron", ("list",), ""),
    "platforms": ("gateway", ("status",), ""),
}
"""Slash command to subcommand, its default arguments, and the word that is inserted before a first
word that is not an action: `/skills pdf` searches."""


MEMORY_HINT = (
    "`/memory show WORDS` searches, `/memory forget TEXT --yes` deletes one, `/memory status` shows"
    " the memory provider."
)


def subcommand_handlers(home: Home) -> dict[str, CommandHandler]:
    """Return handlers by slash command."""
    return {name: _handler(name, home) for name in SLASH_SUBCOMMANDS}


def _handler(name: str, home: Home) -> CommandHandler:
    command, usual, implied = SLASH_SUBCOMMANDS[name]

    async def run(call: CommandCall) -> str:
        if name == "mcp" and not call.words:
            return await command_handlers.mcp(call)  # the state in this process
        words = _arguments(name, call.arguments) or list(usual)
        try:
            text = await asyncio.to_thread(_run_subcommand, home, command, words, implied)
        except UsageError:
            if name != "sessions" or words[0].startswith("-"):
                raise
            return await command_handlers.search_sessions(call)
        if name == "memory" and not call.words:
            text += f"\n\nThe notes are files in `{tilde(home.memories)}`. {MEMORY_HINT}"
        if name == "doctor":  # its logging ends with it
            app = call.app
            start_logging(app.home, app.loaded.settings.logging, app.redactor)
        if name == "cron":
            _wake_ticker(call.app)
        if name == "tools" and words[0] in ("enable", "disable"):  # for new conversations
            fresh = (await asyncio.to_thread(load, home)).settings.platform_toolsets
            settings = call.app.loaded.settings
            call.app.loaded.settings = msgspec.structs.replace(settings, platform_toolsets=fresh)
        return text

    return run


def _arguments(name: str, text: str) -> list[str]:
    """Split the arguments; quotes join words, and a text with a lone quote is split at blanks."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if name == "cron" and words[:1] == ["tick"]:
        raise UsageError("this conversation runs due jobs", hint="/cron run JOB runs one now")
    if name == "cron" and words[:1] == ["run"]:
        words.append("--queue")  # the ticker of this conversation runs it
    return words if name != "platforms" else []  # the gateway is shown here, not controlled


def _wake_ticker(app: App) -> None:
    """Let the ticker of the conversation look at the jobs again."""
    if isinstance(app.services.scheduler, LazyScheduler):
        app.services.scheduler.wake()


def _run_subcommand(home: Home, name: str, words: Sequence[str], single: str) -> str:
    entry = find_entry(name)
    if entry is None:
        raise UsageError(f"there is no command {name}")
    parser = entry.parser(f"/{name}", add_help=False)
    try:
        args = parser.parse_args(list(words))
    except UsageError:
        if not single or words[0].startswith("-"):
            raise
        args = parser.parse_args([single, *words])
    out, errors = io.StringIO(), io.StringIO()
    try:
        run_command(args, Cli(home, io.StringIO(), out, errors))
    except HermesError as error:
        errors.write(str(error))
        if error.hint:
            errors.write(f"\n{error.hint}")
    text = "\n".join(filter(None, (out.getvalue().rstrip(), errors.getvalue().rstrip())))
    return f"```\n{text}\n```" if text else ""

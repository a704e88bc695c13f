"""The conversation at a terminal, as a class that other programs may extend.

class MyCLI(HermesCLI):
    def process_command(self, cmd: str) -> bool:
        if cmd == "/hello":
            print("hello")
            return True
        return super().process_command(cmd)

MyCLI(toolsets="file,terminal").run()
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Window
from prompt_toolkit.widgets import TextArea

from hermes.cli import Cli
from hermes.config.home import current_home
from hermes.config.loader import Loaded
from hermes.tui import LayoutOverrides, TerminalUI, is_terminal_open
from hermes.util.concurrency import in_thread

if TYPE_CHECKING:
    from hermes.agent import Agent
    from hermes.app import CommandContext, Commands


log = logging.getLogger(__name__)

T = TypeVar("T")


class HermesCLI:
    """`run()` is `hermes chat` with these options: model, provider, base_url, toolsets, resume,
    max_turns, skills, yolo, verbose, save_trajectories, source."""

    def __init__(self, *, profile: str | None = None, **options: Any) -> None:
        self._profile, self._options = profile, options
        self._ui: TerminalUI | None = None
        self._talk: CommandContext | None = None
        self._commands: Commands | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def agent(self) -> "Agent | None":
        """The agent; None before the conversation."""
        return self._talk.agent if self._talk else None

    @property
    def model(self) -> str:
        """The model in use; before the conversation, the requested one."""
        agent = self.agent
        return agent.models.name if agent else str(self._options.get("model") or "")

    @property
    def conversation_history(self) -> list[dict[str, Any]]:
        agent = self.agent
        from hermes.core.messages import to_dict  # only when a script asks for it

        return [to_dict(message) for message in agent.history] if agent else []

    # Methods that subclasses override.

    def _get_extra_tui_widgets(self) -> list[Any]:
        """Return the widgets between the spacer and the status bar."""
        return []

    def _register_extra_tui_keybindings(self, kb: KeyBindings, *, input_area: TextArea) -> None:
        """Add key bindings. Called after those of Hermes are added."""

    def _build_tui_layout_children(self, **widgets: Any) -> list[Any]:
        """Return the widgets from top to bottom."""
        above = ("sudo_widget", "secret_widget", "approval_widget", "clarify_widget")
        below = (
            "status_bar", "input_rule_top", "image_bar", "input_area", "input_rule_bot",
            "voice_status_bar", "completions_menu",
        )  # fmt: skip
        return [
            Window(height=0),
            *(widgets[name] for name in (*above, "spinner_widget", "spacer")),
            *self._get_extra_tui_widgets(),
            *(widgets[name] for name in below),
        ]

    def _build_tui_style_dict(self) -> dict[str, str]:
        """Return styles of prompt_toolkit, by class."""
        return {}

    def process_command(self, cmd: str) -> bool:
        """Run a slash command; return False if it is unknown.

        Called in a thread, so it may block.
        """
        if self._commands is None:
            return False
        return self._wait(self._commands.run(cmd))

    def _invalidate(self) -> None:
        """Draw the screen again."""
        if self._ui is not None:
            self._ui.area.invalidate()

    # The conversation itself.

    def run(self) -> int:
        """Run the conversation until the user leaves; return the exit code."""
        from hermes.cli.commands import chat  # it imports this module

        return chat.run(_arguments(self._options), self._cli(), self)

    def _cli(self) -> Cli:
        """Use the requested profile, or the current home."""
        if self._profile is not None:
            return Cli.open(self._profile)
        return Cli(current_home(), sys.stdin, sys.stdout, sys.stderr)

    async def talk(
        self, loaded: Loaded, args: argparse.Namespace, cli: Cli, *, plainly: bool
    ) -> int:
        """Run the conversation. Called by `hermes chat`."""
        self._loop = asyncio.get_running_loop()
        if plainly:
            return await self._in_lines(loaded, args, cli)
        from hermes.security import Redactor  # line mode does not need it

        redactor = Redactor(loaded.secrets())
        changes = LayoutOverrides(
            self._register_extra_tui_keybindings,
            self._build_tui_layout_children,
            self._build_tui_style_dict,
        )
        display = loaded.settings.display
        self._ui = ui = TerminalUI(
            display, cli.home, cli.stdout, Path.cwd(), changes, redactor.redact
        )
        if args.verbose:
            ui.display.set_detail("full")
        cli.above = ui.note
        shown = asyncio.ensure_future(ui.show())
        work = asyncio.ensure_future(self._run_in_ui(ui, shown, loaded, args, cli))
        await asyncio.wait({shown, work}, return_when=asyncio.FIRST_COMPLETED)
        if not shown.done():  # the conversation could not start
            ui.leave()
        elif ui.conversation is None:  # the user left before the agent was ready
            work.cancel()
        await asyncio.wait({shown, work})
        for task in (shown, work):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        goodbye = ui.display.skin.branding.goodbye
        if goodbye and is_terminal_open(ui.stdout):
            cli.say(cli.paint("dim", goodbye))
        return ui.code

    async def _run_in_ui(
        self,
        ui: TerminalUI,
        shown: "asyncio.Future[None]",
        loaded: Loaded,
        args: argparse.Namespace,
        cli: Cli,
    ) -> None:
        open_session = await in_thread(_import_open_session)
        async with open_session(
            loaded,
            args,
            cli,
            asker=ui.questions,
            progress=ui,
            approve_hook=ui.approve_hook,
        ) as (app, agent, folder):
            talk = ui.attach(app, agent, folder)
            # Imported while the prompt is shown.
            from hermes.tui import TerminalCommands, UserInput, greet

            self._begin(app, talk, cli, TerminalCommands(ui, ui.skins).handlers)
            for file in args.image:
                ui.images.add_file(file)
            display = loaded.settings.display.resume_display
            greet(talk, ui.complaint, display)
            sent = ui.take_early_input()
            if args.prompt:
                sent.insert(0, UserInput(" ".join(args.prompt), ui.images.take()))
            await talk.run(shown, sent, resume=agent.abandoned)

    async def _in_lines(self, loaded: Loaded, args: argparse.Namespace, cli: Cli) -> int:
        from hermes.cli import (
            LineMode,
            open_session,  # loads the agent
        )

        lines = LineMode(cli, verbose=args.verbose)
        async with open_session(
            loaded,
            args,
            cli,
            asker=lines.approver,
            progress=lines.progress,
            approve_hook=lines.approve_hook,
        ) as (app, agent, folder):
            self._begin(app, lines.open(app, agent, folder), cli, lines.handlers)
            if args.prompt:
                lines.talk.later(" ".join(args.prompt))
            return await lines.run()

    def _begin(self, app: Any, talk: Any, cli: Cli, handlers: dict[str, Any]) -> None:
        # The agent is loaded by now; the prompt had to appear first.
        from hermes.app import Commands, message_injector
        from hermes.cli import subcommand_handlers
        from hermes.ops import OPS_HANDLERS

        self._talk = talk
        mirrored = subcommand_handlers(cli.home)
        self._commands = Commands(talk, {**OPS_HANDLERS, **mirrored, **handlers})
        talk.take = self._take
        app.providers.learn_meanwhile()
        app.extensions.inject = message_injector(asyncio.get_running_loop(), lambda: self.agent)

    async def _take(self, text: str) -> bool:
        """Run a command. A failure, also of a subclass, does not end the conversation."""
        try:
            return await in_thread(self.process_command, text)
        except Exception as error:  # a subclass can raise anything
            log.exception("a command failed")
            from hermes.plugins import describe_error  # only for failures

            said = describe_error(error)
            if self._talk is not None:
                self._talk.show(f"{text.split()[0]} failed: {said}")
            return True

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the event loop and wait for it in the thread of a command."""
        if self._loop is None:
            raise RuntimeError("there is no conversation")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _import_open_session() -> "Callable[..., AbstractAsyncContextManager[Any]]":
    """Load the agent. Called in a thread, so that the user can type meanwhile."""
    from hermes.cli import open_session  # takes a noticeable time

    return open_session


def _arguments(options: dict[str, Any]) -> argparse.Namespace:
    """Return `options` as parsed arguments. Raises `TypeError` for an unknown option."""
    from hermes.cli.commands import chat  # it imports this module

    parser = argparse.ArgumentParser()
    chat.COMMAND.add_arguments(parser)
    args = parser.parse_args([])
    for name, value in options.items():
        if not hasattr(args, name):
            known = ", ".join(sorted(vars(args)))
            raise TypeError(f"HermesCLI has no option {name!r}; it has: {known}")
        if value is not None:
            setattr(args, name, ",".join(value) if isinstance(value, list | tuple) else value)
    return args

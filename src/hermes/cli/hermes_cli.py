"""The conversation at a terminal, as a class that programs of others may extend.

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
import sys
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, TypeVar

from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Window
from prompt_toolkit.widgets import TextArea

from hermes.agent.agent import Agent
from hermes.app.app import App
from hermes.app.extensions import injecting
from hermes.cli.context import Cli
from hermes.cli.render import Renderer
from hermes.cli.screen import Changes, Screen
from hermes.cli.slash import Slash
from hermes.cli.style import Style
from hermes.cli.turns import one_turn
from hermes.config.home import current_home
from hermes.core.events import Notice
from hermes.core.messages import User
from hermes.core.openai_format import to_dict
from hermes.util.threads import in_thread

GREETING = "Ctrl-C stops a turn, Ctrl-D ends the chat, Alt-Enter starts a new line."
BROKEN_OFF = "The last turn was broken off and goes on now; what its tools did is not done again."
LEAVE = ("/quit", "/exit", "/q")
T = TypeVar("T")


class HermesCLI:
    """`run()` is `hermes chat` with these options: model, provider, base_url, toolsets, resume,
    max_turns, skills, yolo, verbose, save_trajectories, source."""

    def __init__(self, *, profile: str | None = None, **options: Any) -> None:
        self._profile, self._options = profile, options
        self.agent: Agent | None = None
        self._slash: Slash | None = None
        self._screen: Screen | None = None
        self._app: App | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def model(self) -> str:
        """The model that answers; before the conversation, the one that was asked for."""
        return self.agent.models.name if self.agent else str(self._options.get("model") or "")

    @property
    def conversation_history(self) -> list[dict[str, Any]]:
        return [to_dict(message) for message in self.agent.history] if self.agent else []

    # What extensions override.

    def _get_extra_tui_widgets(self) -> list[Any]:
        """Widgets between the spacer and the status bar."""
        return []

    def _register_extra_tui_keybindings(self, kb: KeyBindings, *, input_area: TextArea) -> None:
        """Called after our own keys: Enter, Escape-Enter, Ctrl-C, Ctrl-D, Ctrl-Z, Tab."""

    def _build_tui_layout_children(self, **widgets: Any) -> list[Any]:
        """The widgets from top to bottom."""
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
        """Styles of prompt_toolkit, by class."""
        return {}

    def process_command(self, cmd: str) -> bool:
        """Carry out what begins with `/`; False when it is no command of ours. It may take its
        time: it runs beside the event loop."""
        if self._slash is None:
            return False
        return self._wait(self._slash.process(cmd))

    def _invalidate(self) -> None:
        """Draw the screen again."""
        if self._screen is not None:
            self._screen.app.invalidate()

    # The conversation itself.

    def run(self) -> int:
        """Talk until the user leaves; the result is the exit code."""
        chat = import_module("hermes.cli.commands.chat")
        code: int = chat.run(_arguments(chat, self._options), self._cli(), self)
        return code

    def _cli(self) -> Cli:
        """Over the profile that was asked for, else over the home in force."""
        if self._profile is not None:
            return Cli.open(self._profile)
        return Cli(current_home(), sys.stdin, sys.stdout, sys.stderr)

    async def talk(self, app: App, agent: Agent, renderer: Renderer, cli: Cli) -> int:
        """Turn after turn. Called by `hermes chat`."""
        self.agent, self._loop, self._app = agent, asyncio.get_running_loop(), app
        self._slash = Slash(app, self, renderer)
        app.extensions.inject = injecting(self._loop, lambda: self.agent)
        style = Style.of(cli.stdout)
        cli.home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        changes = Changes(
            self._register_extra_tui_keybindings,
            self._build_tui_layout_children,
            self._build_tui_style_dict,
        )
        self._screen = Screen(changes, cli.home.root / "history", style.accent("› "))
        cli.above = self._screen.print_above
        where = f"{agent.models.name} on {agent.models.provider}, session {agent.session_id}"
        cli.say(f"{style.bold('Hermes')} {style.dim(where)}\n{style.dim(GREETING)}")
        if agent.broken_off:
            renderer.show(Notice(BROKEN_OFF))
            await one_turn(agent, None, renderer)
        unsent = ""
        while True:
            try:
                said, unsent, news = await self._next(self._screen, unsent)
            except KeyboardInterrupt:
                unsent = ""
                continue
            except EOFError:
                return 0
            if said is None:
                continue
            if said.text in LEAVE:
                return 0
            await self._take(said, renderer, news=news)

    async def _take(self, said: User, renderer: Renderer, *, news: bool) -> None:
        if news:
            renderer.show(Notice(said.text.partition("\n")[0]))
        elif said.text.startswith("/") and await in_thread(self.process_command, said.text):
            return
        elif self._app is not None and self.agent is not None and not self.agent.history:
            said = await self._app.opened(self.agent, said.text)
        if self.agent is not None:
            await one_turn(self.agent, said, renderer)

    async def _next(self, screen: Screen, unsent: str) -> tuple[User | None, str, bool]:
        """What the user says, or news of a background process with what was being typed then."""
        if self.agent is None:
            raise RuntimeError("there is no conversation")
        typing = asyncio.ensure_future(screen.ask(unsent))
        news = asyncio.ensure_future(self.agent.notices.wait())
        try:
            await asyncio.wait({typing, news}, return_when=asyncio.FIRST_COMPLETED)
            if not typing.done():
                unsent = screen.typed
                screen.leave()
                await typing
                return self.agent.notices.take(), unsent, True
            text = (await typing).strip()
            return (User.say(text) if text else None), "", False
        finally:
            news.cancel()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, for the thread a command runs in."""
        if self._loop is None:
            raise RuntimeError("there is no conversation")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _arguments(chat: Any, options: dict[str, Any]) -> argparse.Namespace:
    """`options` as the command line would give them. Raises `TypeError` for an unknown one."""
    parser = argparse.ArgumentParser()
    chat.configure(parser)
    args = parser.parse_args([])
    for name, value in options.items():
        if not hasattr(args, name):
            known = ", ".join(sorted(vars(args)))
            raise TypeError(f"HermesCLI has no option {name!r}; it has: {known}")
        if value is not None:
            setattr(args, name, ",".join(value) if isinstance(value, list | tuple) else value)
    return args

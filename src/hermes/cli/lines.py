"""The conversation in lines: see `tui.plain`."""

from collections.abc import Sequence
from pathlib import Path

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.commands import Handler
from hermes.cli.approver import TerminalApprover, read_line
from hermes.cli.context import Cli
from hermes.cli.extending import asked_in_lines
from hermes.cli.progress import ProgressLine
from hermes.cli.render import Terminal
from hermes.cli.style import Style
from hermes.config.settings.display import DisplaySettings
from hermes.tui.commands import TerminalCommands
from hermes.tui.conversation import Referring
from hermes.tui.display import DisplayState
from hermes.tui.plain import PlainTalk
from hermes.tui.skins import PLAIN_SKIN
from hermes.tui.text import Depth

HINT = "A backslash at the end goes on with the next line; /help lists the commands."
COMMANDS = ("history", "resume", "save", "image", "paste", "copy", "terminal-setup", "quit")
"""Those of the terminal that make sense without an area."""


class Lines:
    """First `approver` is there, which an agent needs; then it is opened and run."""

    def __init__(self, cli: Cli, *, verbose: bool) -> None:
        self._cli = cli
        self.approver = TerminalApprover(cli.stdin, cli.stdout)
        self._renderer = Terminal(
            cli.stdout,
            Style.of(cli.stdout),
            reasoning=verbose,
            question_shown=self.approver.shown,
        )
        self.progress, self.consent = ProgressLine(cli.stderr), asked_in_lines(cli)
        self._talk: PlainTalk | None = None

    def open(self, app: App, agent: Agent, folder: Path) -> PlainTalk:
        self._talk = talk = PlainTalk(
            app, agent, self._renderer, self._cli.stdout, lambda: read_line(self._cli.stdin)
        )
        talk.expand = Referring(app, lambda: talk.agent, folder, self._cli.note)
        return talk

    @property
    def talk(self) -> PlainTalk:
        if self._talk is None:
            raise RuntimeError("there is no conversation yet")
        return self._talk

    @property
    def handlers(self) -> dict[str, Handler]:
        commands = TerminalCommands(Without(self), self._cli.home.root / "skins").handlers
        return {name: commands[name] for name in COMMANDS}

    async def run(self) -> int:
        models = self.talk.agent.models
        self._cli.say(f"Hermes: {models.name} on {models.provider}. {HINT}")
        if self.talk.agent.abandoned:
            await self.talk.ask(None)
        return await self.talk.run()


class Without:
    """A `tui.terminal_commands.Terminal` that has no area."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.looks = DisplayState(DisplaySettings(), PLAIN_SKIN, Depth.NONE)
        self.images = lines.talk.images

    def out(self, lines: Sequence[str]) -> None:
        self._lines.talk.out(lines)

    def columns(self) -> int:
        return self._lines.talk.columns()

    def leave(self, code: int = 0) -> None:
        self._lines.talk.leave(code)

    def raw(self, sequence: str) -> None:
        """No escape sequence goes to a terminal that may not know it."""

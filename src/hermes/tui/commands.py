"""Slash commands that only the terminal has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hermes.app import CommandCall, CommandHandler, command_handlers
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant
from hermes.ops import export_sessions, format_of, replaced
from hermes.tui.clipboard import ImageAttachments, copy_text
from hermes.tui.display import DisplayState
from hermes.tui.skins import find_skin, skin_names
from hermes.tui.text import Depth, terminal_depth


class CommandTerminal(Protocol):
    """The terminal as these commands use it, in addition to `Talk`."""

    display: DisplayState
    images: ImageAttachments

    def out(self, lines: Sequence[str]) -> None: ...

    def columns(self) -> int: ...

    def leave(self, code: int = 0) -> None: ...

    def raw(self, sequence: str) -> None:
        """Write an escape sequence to the terminal."""
        ...


class TerminalCommands:
    """The handlers of the commands; `Commands` adds them to the shared ones."""

    def __init__(self, terminal: CommandTerminal, skins: Path) -> None:
        self._terminal, self._skins = terminal, skins
        self.handlers: dict[str, CommandHandler] = {
            "clear": self._clear,
            "history": self._history,
            "resume": self._resume,
            "save": self._save,
            "verbose": self._verbose,
            "reasoning": self._reasoning,
            "skin": self._skin,
            "statusbar": self._status_bar,
            "details": self._details,
            "busy": self._busy,
            "paste": self._paste,
            "image": self._image,
            "copy": self._copy,
            "terminal-setup": self._setup,
            "quit": self._quit,
        }

    @property
    def _display(self) -> DisplayState:
        return self._terminal.display

    async def _clear(self, call: CommandCall) -> str:
        agent = await call.app.renew(call.agent, call.talk.continue_with)
        self._terminal.raw("\x1b[2J\x1b[3J\x1b[H")  # clears the screen and what scrolled off it
        return f"A new conversation: session `{agent.session_id}`"

    async def _history(self, call: CommandCall) -> str:
        lines = self._recap(call, _parse_number(call, 0))
        self._terminal.out(lines)
        return "" if lines else "There are no messages yet."

    async def _resume(self, call: CommandCall) -> str:
        before = call.agent.session_id
        message = await command_handlers.resume(call)
        if call.agent.session_id != before:
            self._terminal.out(self._recap(call))
        return message

    def _recap(self, call: CommandCall, most: int = 0) -> list[str]:
        """Return the last exchanges; 0 is the usual number."""
        from hermes.tui.terminal_ui import (  # with prompt_toolkit, which is slow
            MAX_EXCHANGES,
            recap,
        )

        display, most = self._display, most or MAX_EXCHANGES
        symbol = display.skin.branding.prompt_symbol
        return recap(call.agent.history, display.paint, self._terminal.columns(), symbol, most)

    async def _save(self, call: CommandCall) -> str:
        session = call.agent.session_id
        path = Path(call.arguments or f"hermes-{session}.md").expanduser()
        info = await call.app.store.info(session)
        with replaced(path, overwrite=False) as file:
            async for piece in export_sessions(call.app.store, [info], format_of(path)):
                file.write(piece)
        return f"Saved as `{tilde(path.resolve())}`"

    async def _verbose(self, call: CommandCall) -> str:
        modes = call.command.words
        wanted = call.arguments.lower() or _next_word(modes, self._display.tool_progress)
        self._display.tool_progress = _check_word(wanted, modes)  # type: ignore[assignment]  # checked
        return f"Tool calls: {wanted}"

    async def _details(self, call: CommandCall) -> str:
        modes = call.command.words
        wanted = call.arguments.lower() or _next_word(modes, self._display.results)
        self._display.set_detail(_check_word(wanted, modes))  # type: ignore[arg-type]  # checked
        return f"Thinking and results: {wanted}"

    async def _busy(self, call: CommandCall) -> str:
        wanted = call.arguments.lower()
        if wanted not in ("", "status"):
            modes = [word for word in call.command.words if word != "status"]
            self._display.busy = _check_word(wanted, modes)  # type: ignore[assignment]  # checked
        does = {
            "interrupt": "stops the agent and is answered then",
            "queue": "waits until the agent is done",
            "steer": "is passed to the agent after its next step",
        }
        return (
            f"While the agent works, a message {does[self._display.busy]} ({self._display.busy})."
        )

    async def _reasoning(self, call: CommandCall) -> str:
        if call.arguments in ("show", "hide"):
            self._display.reasoning = call.arguments == "show"
            return f"Thinking is {'shown' if self._display.reasoning else 'folded'}."
        return await command_handlers.reasoning(call)

    async def _skin(self, call: CommandCall) -> str:
        if not call.arguments:
            names = ", ".join(skin_names(self._skins))
            return f"Skin: **{self._display.skin.name}**. There are {names}."
        self._display.set_skin(find_skin(call.arguments, self._skins))
        return f"Skin: **{self._display.skin.name}**"

    async def _status_bar(self, call: CommandCall) -> str:
        wanted = {"on": True, "off": False, "": not self._display.status_bar}
        self._display.status_bar = wanted[_check_word(call.arguments.lower(), wanted)]
        return ""

    async def _paste(self, _call: CommandCall) -> str:
        return f"Attached {await self._terminal.images.paste()}"

    async def _image(self, call: CommandCall) -> str:
        if not call.arguments:
            raise UsageError("the name of the image is missing", hint="/image FILE")
        return f"Attached {self._terminal.images.add_file(call.arguments)}"

    async def _copy(self, call: CommandCall) -> str:
        said = [m for m in call.agent.history if isinstance(m, Assistant) and m.text.strip()]
        number = _parse_number(call, 1)
        if number > len(said):
            raise UsageError("there is no such answer", hint="/copy 1 is the last one")
        return await copy_text(said[-number].text, self._terminal.raw)

    async def _setup(self, _call: CommandCall) -> str:
        return describe_terminal(terminal_depth(), self._terminal.columns())

    async def _quit(self, _call: CommandCall) -> str:
        self._terminal.leave()
        return ""


def describe_terminal(depth: Depth, columns: int) -> str:
    colours = {Depth.NONE: "none", Depth.NAMED: "16", Depth.INDEXED: "256", Depth.TRUE: "all"}
    return "\n".join(
        (
            f"- colours: {colours[depth]} (`TERM`, `COLORTERM`, `NO_COLOR`)",
            f"- columns: {columns}",
            "- a new line: Alt-Enter, Ctrl-J, or a backslash at the end of the line",
            "- where Alt does nothing: let the terminal send Escape for it (“Option as Meta key”)",
            "- Shift-Enter: terminals send a plain Enter; map it to Ctrl-J in their settings",
        )
    )


def _parse_number(call: CommandCall, default: int) -> int:
    if not call.arguments:
        return default
    if not call.arguments.isdecimal() or not int(call.arguments):
        raise UsageError(f"{call.arguments!r} is not a number", hint=f"/{call.command.name} [N]")
    return int(call.arguments)


def _check_word(word: str, words: Sequence[str] | dict[str, bool]) -> str:
    if word not in words:
        raise UsageError(f"{word!r} must be one of {', '.join(filter(None, words))}")
    return word


def _next_word(words: Sequence[str], now: str) -> str:
    return words[(words.index(now) + 1) % len(words)]

"""The input area of a conversation and what stands around it.

Extensions put widgets, keys and styles of their own into it; see `HermesCLI`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_done
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import TextArea

EMPTY = (
    "sudo_widget", "secret_widget", "approval_widget", "clarify_widget", "spinner_widget", "spacer",
    "status_bar", "input_rule_top", "image_bar", "input_rule_bot", "voice_status_bar",
    "completions_menu",
)  # fmt: skip
"""Widgets that have their place in the layout, and nothing to show between two turns."""


class Changes(msgspec.Struct, frozen=True):
    """What others may make of the screen."""

    keys: Callable[..., None]
    """Adds to the keys: `keys(kb, input_area=…)`."""
    children: Callable[..., list[Any]]
    """The widgets, given by name, from top to bottom."""
    styles: Callable[[], dict[str, str]]


class Screen:
    """Shown while the user types; what was typed stays on the screen when it is taken away."""

    def __init__(self, changes: Changes, history: Path, mark: str) -> None:
        self.input_area = TextArea(
            multiline=True,
            prompt=ANSI(mark),
            history=FileHistory(str(history)),
            height=Dimension(min=1),
            dont_extend_height=True,
            wrap_lines=True,
        )
        self._printing: set[asyncio.Future[None]] = set()
        keys = _keys()
        changes.keys(keys, input_area=self.input_area)
        nothing = {name: ConditionalContainer(Window(), filter=False) for name in EMPTY}
        children = changes.children(input_area=self.input_area, **nothing)
        self.app: Application[str] = Application(
            Layout(HSplit(list(map(self._while_typing, children))), self.input_area),
            key_bindings=keys,
            style=Style.from_dict(changes.styles()),
        )

    def _while_typing(self, child: Any) -> Any:
        """The input stays where it is; the rest goes when it is sent."""
        return child if child is self.input_area else ConditionalContainer(child, ~is_done)

    @property
    def typed(self) -> str:
        return self.input_area.text

    async def ask(self, default: str = "") -> str:
        """What the user sends. Raises `KeyboardInterrupt` and `EOFError`."""
        self.input_area.buffer.reset(Document(default))
        return await self.app.run_async()

    def print_above(self, text: str) -> bool:
        """Above what is being typed, from any thread; False when nobody types."""
        loop = self.app.loop
        if not self.app.is_running or loop is None:
            return False

        def show() -> None:
            printing = asyncio.ensure_future(run_in_terminal(lambda: print_formatted_text(text)))
            self._printing.add(printing)
            printing.add_done_callback(self._printing.discard)

        loop.call_soon_threadsafe(show, context=self.app.context)
        return True

    def leave(self) -> None:
        """Take it away without an answer."""
        self.app.exit(result="")


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.append_to_history()
        event.app.exit(result=event.current_buffer.text)

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _drop(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt())

    @keys.add("c-d")
    def _end(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            event.app.exit(exception=EOFError())

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys

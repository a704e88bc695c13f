"""The area below the conversation: what is put together there, and what others may change of it."""

from collections.abc import Callable
from typing import Any

import msgspec
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindingsBase, merge_key_bindings
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import TextArea

from hermes.tui.area import Area
from hermes.tui.entry.paste_parser import read_pastes_quickly
from hermes.tui.frame import FrameOutput
from hermes.tui.line_box import LineBox

Lines = Callable[[], list[str]]
"""What a widget shows at the moment, with colours; nothing hides it."""

STYLES = {
    "completion-menu": "bg:default fg:default noreverse",
    "completion-menu.completion": "bg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default fg:default",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "bg:default reverse",
    "auto-suggestion": "fg:ansibrightblack",
}
MENU_ROWS = 8
KEY_SECONDS, ESCAPE_SECONDS = 0.2, 0.05
"""How long a key is waited for that may belong to the one before it."""


class Changes(msgspec.Struct, frozen=True):
    """What an extension makes of the screen."""

    keys: Callable[..., None]
    """Adds to the keys: `keys(kb, input_area=…)`."""
    children: Callable[..., list[Any]]
    """The widgets, given by name, from top to bottom."""
    styles: Callable[[], dict[str, str]]


class Parts(msgspec.Struct, frozen=True):
    """What the area is made of."""

    input_area: TextArea
    questions: dict[str, ConditionalContainer]
    """The widgets of questions, by name."""
    live: Lines
    """What is not finished yet."""
    status: Lines
    images: Lines
    """Pictures that go with the message."""
    frame: Callable[[], int]
    """Another number for each painting."""


def make_area(
    output: FrameOutput, parts: Parts, keys: KeyBindingsBase, own: Any, changes: Changes
) -> Area:
    """`own` are the key bindings that an extension may add to."""
    changes.keys(own, input_area=parts.input_area)
    widgets: dict[str, Any] = {
        **parts.questions,
        "spinner_widget": LineBox(parts.live, 30, parts.frame),
        "spacer": _nothing(),
        "status_bar": LineBox(parts.status, 1, parts.frame),
        "input_rule_top": _nothing(),
        "image_bar": LineBox(parts.images, 2, parts.frame),
        "input_area": parts.input_area,
        "input_rule_bot": _nothing(),
        "voice_status_bar": _nothing(),
        "completions_menu": CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1),
    }
    children = changes.children(**widgets)
    area = Area(
        output=output,
        layout=Layout(HSplit(children), parts.input_area),
        key_bindings=merge_key_bindings([keys, own]),
        style=Style.from_dict({**STYLES, **changes.styles()}),
        mouse_support=False,
    )
    area.timeoutlen, area.ttimeoutlen = KEY_SECONDS, ESCAPE_SECONDS
    read_pastes_quickly(area.input)
    return area


def _nothing() -> ConditionalContainer:
    """Has its place in the layout, and nothing to show."""
    return ConditionalContainer(Window(), filter=Condition(lambda: False))

"""A view of tool calls, and how a call looks in it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hermes.config.settings import DisplaySettings
from hermes.core.events import ToolFinished, ToolStarted
from hermes.core.messages import ToolCall
from hermes.tui.skins import DisplayState, Skin
from hermes.tui.text import Depth, width
from hermes.tui.tool_view import ToolView


@pytest.fixture
def display() -> DisplayState:
    return DisplayState(DisplaySettings(), Skin(), Depth.NONE)


@pytest.fixture
def view(display: DisplayState) -> ToolView:
    return ToolView(display)


@pytest.fixture
def show(view: ToolView) -> Callable[..., list[str]]:
    """The lines of a call that has run; each fits."""

    def show(
        name: str,
        arguments: dict[str, Any] | str,
        result: str,
        *,
        failed: bool = False,
        seconds: float = 0.0,
        columns: int = 80,
    ) -> list[str]:
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        view.started(ToolStarted(ToolCall("1", name, text)))
        lines = view.finished(ToolFinished("1", name, result, failed, seconds), columns)
        for line in lines:
            assert "\n" not in line
            assert width(line) <= columns
        return lines

    return show

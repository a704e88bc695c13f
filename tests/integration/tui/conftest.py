"""Conversations on an emulated screen, with a scripted model."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import UNTITLED, at, hermes, screen, untitled, work
from tests.screens.chat import GREETING, Chat

__all__ = ["hermes", "screen", "untitled", "work"]

BUSY = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo built"
"""A command that runs until the file `go` is there."""


@pytest.fixture
def settings(untitled: None, hermes_home: Path) -> Callable[[str], None]:
    """Adds to config.yaml."""

    def write(text: str) -> None:
        (hermes_home / "config.yaml").write_text(text + UNTITLED)

    return write


@pytest.fixture
def chat(screen) -> Callable[..., Chat]:
    """A conversation in which something can be typed."""

    def start(server: ModelServer, *flags: str, **more) -> Chat:
        it: Chat = screen("chat", *at(server), *flags, **more)
        it.sees(GREETING)
        return it.ready()

    return start


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


def run(command: str, call_id: str = "c1") -> ToolCall:
    return call("terminal", call_id, command=command)


def said(server: ModelServer, number: int = -1) -> str:
    """The last message of a request."""
    content = server.calls[number].body["messages"][-1]["content"]
    assert isinstance(content, str)
    return content

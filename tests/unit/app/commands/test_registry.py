"""Names of slash commands."""

import pytest

from hermes.app.commands import COMMAND_REGISTRY, Surface, resolve_command


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/new", "new"),
        ("/RESET", "new"),
        ("/q", "quit"),
        ("/qu", "queue"),
        ("/comp", "compress"),
        ("/re", "retry"),
        ("/reload_mcp", "reload-mcp"),
        ("/fork", "branch"),
        ("/sb", "statusbar"),
        ("help", "help"),
        ("/nothing", None),
        ("/", None),
        ("", None),
    ],
)
def test_names_aliases_and_beginnings(typed: str, meant: str | None) -> None:
    found = resolve_command(typed)
    assert (found and found.name) == meant


def test_a_chat_has_no_commands_of_the_terminal() -> None:
    assert resolve_command("/skin", Surface.CHATS) is None
    assert resolve_command("/model", Surface.CHATS) is not None


def test_no_name_is_used_twice() -> None:
    names = [name for each in COMMAND_REGISTRY for name in each.names]
    assert len(names) == len(set(names))

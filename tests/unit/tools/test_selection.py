"""Switching tools on and off for a platform."""

import pytest

from hermes.config.settings import Settings
from hermes.config.settings.abilities import CustomToolset
from hermes.core.errors import UsageError
from hermes.tools.toolsets import (
    all_toolsets,
    custom_toolsets,
    expand,
    platform_key,
    selected_toolsets,
    switch_toolsets,
)

KNOWN = all_toolsets()


def test_a_platform_has_its_preset_until_the_settings_say_otherwise():
    settings = Settings(platform_toolsets={"slack": ("web",)})
    assert selected_toolsets(settings, "cli") == ("hermes-cli",)
    assert selected_toolsets(settings, "telegram") == ("hermes-telegram",)
    assert selected_toolsets(settings, "slack") == ("web",)
    assert selected_toolsets(Settings(toolsets=("file",)), "cli") == ("file",)


@pytest.mark.parametrize("name", ["api-server", "api_server"])
@pytest.mark.parametrize("written", ["api-server", "api_server"])
def test_a_platform_is_the_same_whichever_way_its_name_is_written(name, written):
    assert selected_toolsets(Settings(), name) == ("hermes-api-server",)
    settings = Settings(platform_toolsets={written: ("web",)})
    assert selected_toolsets(settings, name) == ("web",)
    assert platform_key(settings, name) == written
    assert platform_key(Settings(), name) == "api-server"


@pytest.mark.parametrize(
    ("current", "names", "on", "expected"),
    [
        (["hermes-cli"], ["web"], False, ["hermes-cli", "-web"]),
        (["hermes-cli", "-web"], ["web"], True, ["hermes-cli"]),
        (["hermes-cli"], ["web"], True, ["hermes-cli"]),
        (["hermes-cli"], ["execute_code"], False, ["hermes-cli", "-execute_code"]),
        (["file"], ["web", "todo"], True, ["file", "web", "todo"]),
        (["file", "web"], ["web"], False, ["file"]),
        (["file"], ["rl"], False, ["file"]),
        (["file", "-patch"], ["file"], False, ["-patch"]),
    ],
)
def test_switching(current, names, on, expected):
    assert switch_toolsets(current, names, KNOWN, on=on) == expected


def test_what_was_switched_off_is_off_and_back_on_again():
    off = switch_toolsets(["hermes-cli"], ["file", "todo"], KNOWN, on=False)
    assert not {"read_file", "todo"} & set(expand(off, KNOWN))
    on = switch_toolsets(off, ["todo"], KNOWN, on=True)
    assert "todo" in expand(on, KNOWN)


def test_a_name_nobody_knows_changes_nothing():
    with pytest.raises(UsageError):
        switch_toolsets(["file"], ["todo", "nonsense"], KNOWN, on=True)


def test_toolsets_of_the_user_are_known():
    own = {"mine": CustomToolset("notes", ("todo",), ("file",)), "short": ("web_search",)}
    known = all_toolsets(custom_toolsets(Settings(custom_toolsets=own)))
    assert expand(["mine", "short"], known)[:2] == ["todo", "read_file"]
    assert known["short"].tools == ("web_search",)

"""Which tools a name stands for."""

import pytest

from hermes.config.settings import CustomToolset, Settings
from hermes.core.errors import UsageError
from hermes.tools.toolsets import (
    PRESETS,
    TOOLSETS,
    Toolset,
    all_toolsets,
    custom_toolsets,
    expand,
    is_rare,
    platform_key,
    preset_of,
    selected_toolsets,
    switch_toolsets,
)
from tests.cases import cases

CASES = cases(__file__)

KNOWN = all_toolsets(custom={"mine": Toolset("", ("web_extract",), ("todo", "loop")),
                             "loop": Toolset("", ("clarify",), ("mine",))})  # fmt: skip


@pytest.mark.parametrize(("names", "tools"), CASES["names_become_tools"])
def test_names_become_tools(names, tools):
    assert expand(names, KNOWN) == tools


def test_all_expands_to_every_tool():
    every = {tool for toolset in KNOWN.values() for tool in toolset.tools}
    assert set(expand(["all"], KNOWN)) == set(expand(["*"], KNOWN)) == every


@pytest.mark.parametrize("name", ["nonsense", "-nonsense", ""])
def test_unknown_name_is_an_error_that_says_where_to_look(name):
    with pytest.raises(UsageError) as error:
        expand([name], KNOWN)
    assert "hermes tools list" in error.value.hint


def test_presets_of_editors_and_jobs_lack_interactive_tools():
    acp, cron = expand(["hermes-acp"], KNOWN), expand(["hermes-cron"], KNOWN)
    assert not {"clarify", "cronjob", "image_generate", "send_message", "text_to_speech"} & set(acp)
    assert not {"clarify", "cronjob"} & set(cron)
    assert {"read_file", "terminal"} <= set(acp) & set(cron)


def test_platforms_have_presets():
    assert all(expand([name], KNOWN) for name in PRESETS)
    assert preset_of("telegram") == "hermes-telegram"
    assert preset_of("something-new") == "hermes-cli"


def test_toolset_determines_whether_a_tool_is_rare():
    assert is_rare("browser_click", "browser", KNOWN)
    assert not is_rare("web_search", "web", KNOWN)
    assert not is_rare("read_file", "nonsense", KNOWN)
    assert TOOLSETS["browser"].rare


BUILTIN_TOOLSETS = all_toolsets()


def test_platform_has_its_preset_until_the_settings_say_otherwise():
    settings = Settings(platform_toolsets={"slack": ("web",)})
    assert selected_toolsets(settings, "cli") == ("hermes-cli",)
    assert selected_toolsets(settings, "telegram") == ("hermes-telegram",)
    assert selected_toolsets(settings, "slack") == ("web",)
    assert selected_toolsets(Settings(toolsets=("file",)), "cli") == ("file",)


@pytest.mark.parametrize("name", ["api-server", "api_server"])
@pytest.mark.parametrize("written", ["api-server", "api_server"])
def test_platform_is_the_same_whichever_way_its_name_is_written(name, written):
    assert selected_toolsets(Settings(), name) == ("hermes-api-server",)
    settings = Settings(platform_toolsets={written: ("web",)})
    assert selected_toolsets(settings, name) == ("web",)
    assert platform_key(settings, name) == written
    assert platform_key(Settings(), name) == "api-server"


@pytest.mark.parametrize(
    ("current", "names", "on", "expected"), CASES["switching_toolsets_on_and_off"]
)
def test_switching_toolsets_on_and_off(current, names, on, expected):
    assert switch_toolsets(current, names, BUILTIN_TOOLSETS, on=on) == expected


def test_unknown_name_changes_nothing():
    with pytest.raises(UsageError):
        switch_toolsets(["file"], ["todo", "nonsense"], BUILTIN_TOOLSETS, on=True)


def test_custom_toolsets_are_known():
    own = {"mine": CustomToolset("notes", ("todo",), ("file",)), "short": ("web_search",)}
    known = all_toolsets(custom_toolsets(Settings(custom_toolsets=own)))
    assert expand(["mine", "short"], known)[:2] == ["todo", "read_file"]
    assert known["short"].tools == ("web_search",)

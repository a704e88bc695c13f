"""Which tools a name stands for."""

import pytest

from hermes.core.errors import UsageError
from hermes.tools.toolsets import (
    PRESETS,
    TOOLSETS,
    Toolset,
    all_toolsets,
    expand,
    is_rare,
    preset_of,
)

KNOWN = all_toolsets(custom={"mine": Toolset("", ("web_extract",), ("todo", "loop")),
                             "loop": Toolset("", ("clarify",), ("mine",))})  # fmt: skip


@pytest.mark.parametrize(
    ("names", "tools"),
    [
        (["file"], ["read_file", "write_file", "patch", "search_files"]),
        (["terminal", "terminal"], ["terminal", "process"]),
        (["safe"], ["image_generate", "vision_analyze", "web_extract", "web_search"]),
        (["web_tools"], ["web_search", "web_extract"]),
        (["read_file", "todo"], ["read_file", "todo"]),
        (["file", "-patch"], ["read_file", "write_file", "search_files"]),
        (["-file", "debugging"], ["web_search", "web_extract", "terminal", "process"]),
        (["mine"], ["web_extract", "todo", "clarify"]),
        ([], []),
    ],
)
def test_names_become_tools(names, tools):
    assert expand(names, KNOWN) == tools


def test_everything_means_everything():
    every = {tool for toolset in KNOWN.values() for tool in toolset.tools}
    assert set(expand(["all"], KNOWN)) == set(expand(["*"], KNOWN)) == every


@pytest.mark.parametrize("name", ["nonsense", "-nonsense", ""])
def test_an_unknown_name_is_an_error_that_says_where_to_look(name):
    with pytest.raises(UsageError) as error:
        expand([name], KNOWN)
    assert "hermes tools list" in error.value.hint


def test_every_preset_can_be_expanded():
    for name in PRESETS:
        assert expand([name], KNOWN)


def test_editors_and_jobs_lack_what_makes_no_sense_there():
    acp, cron = expand(["hermes-acp"], KNOWN), expand(["hermes-cron"], KNOWN)
    assert not {"clarify", "cronjob", "image_generate", "send_message", "text_to_speech"} & set(acp)
    assert not {"clarify", "cronjob"} & set(cron)
    assert {"read_file", "terminal"} <= set(acp) & set(cron)


def test_platforms_have_presets():
    assert preset_of("telegram") == "hermes-telegram"
    assert preset_of("something-new") == "hermes-cli"


def test_rare_is_said_by_the_toolset_a_tool_belongs_to():
    assert is_rare("browser_click", "browser", KNOWN)
    assert not is_rare("web_search", "web", KNOWN)
    assert not is_rare("read_file", "nonsense", KNOWN)
    assert TOOLSETS["browser"].rare

"""The scripts that write reference pages notice what a page leaves out."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    """Loads one as `python scripts/NAME.py` does."""
    monkeypatch.syspath_prepend(str(SCRIPTS))

    def load(name: str) -> ModuleType:
        return import_module(name)

    return load


def test_a_variable_that_the_code_reads_and_the_page_has_not_is_named(script) -> None:
    page = script("environment_reference")
    assert {"HERMES_HOME", "NO_COLOR", "EDITOR"} <= set(page.unlisted(""))
    assert page.unlisted(page.reference()) == []


def test_a_key_without_a_line_and_a_line_without_a_key_are_named(script) -> None:
    keys = script("keys_reference")
    told = {("c-x", "tab"): "does something"}
    keys.agree("typing", told, {"c-x", "tab"})
    with pytest.raises(SystemExit, match="typing: c-k"):
        keys.agree("typing", told, {"c-x", "tab", "c-k"})
    with pytest.raises(SystemExit, match="typing: tab"):
        keys.agree("typing", told, {"c-x"})


def test_tools_that_cannot_be_used_here_are_on_the_page(script) -> None:
    tools = script("tools_reference")
    page = tools.reference()
    assert {tool.name for tool in tools.every_tool()} >= {"terminal", "web_search", "memory"}
    assert "### `execute_code`" in page
    assert "| `pattern` | string | needed |" in page

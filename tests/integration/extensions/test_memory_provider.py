"""A memory provider, as a user of `hermes chat` meets it."""

import json
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.cases import cases
from tests.integration.chat.conftest import UNTITLED, at, hermes, untitled, work

CASES = cases(__file__)

__all__ = ["hermes", "untitled", "work"]

PROVIDER = CASES["provider"]
CLI = CASES["cli"]


@pytest.fixture
def provider(hermes_home: Path):
    def install(code: str = PROVIDER) -> None:
        folder = hermes_home / "plugins" / "memory" / "diary"
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text("name: diary\nversion: '1'\ndescription: a diary\n")
        (folder / "__init__.py").write_text(code)
        (folder / "cli.py").write_text(CLI)
        (hermes_home / "config.yaml").write_text(
            f"memory:\n  provider: diary\n  provider_timeout: 1\n{UNTITLED}"
        )

    return install


def test_provider_recalls_and_receives_every_turn(hermes, provider, hermes_home: Path) -> None:
    provider()
    with (hermes_home / "config.yaml").open("a") as file:
        file.write("approvals:\n  effects: {memory: allow}\n")
    note = '{"action":"add","target":"memory","content":"likes tea"}'
    steps = [ToolCall("c1", "diary_read", "{}"), ToolCall("c2", "memory", note), "Tea it is."]
    with ModelServer(steps) as server:
        done = hermes("chat", "-q", "tea", *at(server))
        assert (done.stdout, done.stderr) == ("Tea it is.\n", "")
        asked, *_, last = (call.body["messages"] for call in server.calls)
    assert "There is a diary." in asked[0]["content"]
    assert "Yesterday they asked about tea." in asked[-1]["content"]
    assert asked[-1]["content"].startswith("tea")
    assert json.loads(last[-3]["content"]) == {"pages": 3}
    assert (hermes_home / "diary.txt").read_text().splitlines() == [
        "initialize", "write add likes tea", "sync tea -> Tea it is.", "end 6", "shutdown",
    ]  # fmt: skip
    assert "Yesterday" not in hermes("sessions", "export", "-").stdout


def test_its_commands_are_there_while_it_is_in_use(hermes, provider, hermes_home: Path) -> None:
    provider()
    assert hermes("diary", "pages").stdout == "three pages\n"
    (hermes_home / "config.yaml").write_text(UNTITLED)
    assert hermes("diary", "pages").returncode == 2


def test_its_commands_are_in_the_help_and_say_how_they_are_used(hermes, provider, hermes_home):
    provider()
    assert hermes("--help").stdout.endswith("\nalso: diary (memory provider)\n")
    done = hermes("diary")
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith("usage: hermes diary ") and "pages" in done.stderr
    failed = hermes("diary", "burn")
    assert failed.returncode == 1
    said, hint = failed.stderr.splitlines()
    assert "of the memory provider diary failed: ZeroDivisionError: division by zero" in said
    assert "hermes memory off" in hint
    (hermes_home / "plugins" / "memory" / "diary" / "cli.py").unlink()
    assert "also:" not in hermes("--help").stdout


@pytest.mark.parametrize("trouble", ["time.sleep(60)", "raise RuntimeError('broken')"])
def test_failing_provider_is_reported_once_and_the_conversation_continues(
    hermes, provider, trouble: str
) -> None:
    provider(PROVIDER.replace('return f"Yesterday they asked about {query}."', trouble))
    with ModelServer(["Still here."]) as server:
        done = hermes("chat", "-q", "tea", *at(server))
        assert done.stdout == "Still here.\n"
        assert server.calls[0].body["messages"][-1]["content"] == "tea"
    assert done.stderr.count("diary") == 1, done.stderr


def test_provider_cannot_take_the_name_of_another_tool(hermes, provider) -> None:
    provider(PROVIDER.replace('"name": "diary_read"', '"name": "terminal"'))
    with ModelServer(["Fine."]) as server:
        done = hermes("chat", "-q", "hello", *at(server))
        names = [each["function"]["name"] for each in server.calls[0].body["tools"]]
    assert names.count("terminal") == 1
    assert done.stderr.count("there is a tool terminal already") == 1

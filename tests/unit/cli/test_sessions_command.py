import argparse
import asyncio
import io
import json

import pytest

from hermes.cli.commands import sessions
from hermes.cli.context import Cli
from hermes.config.home import Home
from hermes.core.errors import SessionNotFound, UsageError
from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.store.sqlite_log import SqliteLog


def hermes_sessions(home, *arguments):
    parser = argparse.ArgumentParser()
    sessions.configure(parser)
    cli = Cli(home, io.StringIO(), io.StringIO(), io.StringIO())
    assert sessions.run(parser.parse_args(arguments), cli) == 0
    return cli.stdout.getvalue()


@pytest.fixture
def empty_home(tmp_path):
    return Home(tmp_path / "home")


@pytest.fixture
def home(empty_home):
    async def fill():
        log = SqliteLog(empty_home.state_db)
        for session, source in (("first", "cli"), ("second", "telegram")):
            await log.create(session, source=source, model="m", system_prompt="p")
        await log.append("first", User.say("list the\nfiles"))
        call = ToolCall("call_1", "terminal", '{"command": "ls"}')
        await log.append("first", Assistant((Text("I look."), call), "tool_calls"))
        await log.append("first", ToolResult("call_1", "terminal", "x" * 5000))
        log.close()

    asyncio.run(fill())
    return empty_home


def test_the_list_shows_what_each_session_is_about(home):
    second, first = hermes_sessions(home, "list").splitlines()
    assert second.split()[:2] == ["second", "telegram"]
    assert first.endswith("3 messages  list the files")


def test_the_list_can_be_narrowed(home):
    assert hermes_sessions(home, "list", "--source", "cli").count("\n") == 1
    assert hermes_sessions(home, "list", "--limit", "1").startswith("second")
    (only,) = json.loads(hermes_sessions(home, "list", "--source", "cli", "--json"))
    assert (only["id"], only["message_count"], only["preview"]) == ("first", 3, "list the files")


def test_a_conversation_is_shown_with_its_calls_and_long_results_cut(home):
    text = hermes_sessions(home, "show", "first")
    assert "user: list the\nfiles" in text
    assert 'assistant: I look.\n[call of terminal] {"command": "ls"}' in text
    assert "[... 3,000 characters left out ...]" in text


def test_json_has_everything(home):
    document = json.loads(hermes_sessions(home, "show", "first", "--json"))
    assert document["session"]["id"] == "first"
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "tool"]
    assert len(document["messages"][2]["content"]) == 5000


def test_looking_at_nothing_creates_nothing(empty_home):
    assert hermes_sessions(empty_home, "list") == "no sessions yet\n"
    assert json.loads(hermes_sessions(empty_home, "list", "--json")) == []
    with pytest.raises(SessionNotFound, match="nothing was stored yet"):
        hermes_sessions(empty_home, "show", "x")
    assert not empty_home.root.exists()


def test_wrong_input_is_a_clear_error(home):
    with pytest.raises(SessionNotFound, match="no session x"):
        hermes_sessions(home, "show", "x\udcff")
    with pytest.raises(UsageError):
        hermes_sessions(home, "list", "--limit", "0")

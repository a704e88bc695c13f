"""examples/tool-plugin, installed and used."""

import json
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.examples.conftest import EXAMPLES
from tests.integration.chat.conftest import UNTITLED, at

SETTINGS = f"""\
approvals:
  effects:
    book_add: allow
    book_list: allow
{UNTITLED}"""


@pytest.fixture(autouse=True)
def installed(hermes, hermes_home: Path) -> None:
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(SETTINGS)
    folder = EXAMPLES / "tool-plugin" / "reading-list"
    done = hermes("plugins", "install", str(folder), "--enable")
    assert done.returncode == 0, done.stderr


def test_tools_and_hooks_in_a_conversation(hermes, hermes_home: Path) -> None:
    add = ToolCall("c1", "book_add", '{"title":"Dune","author":"Frank Herbert"}')
    peek = ToolCall("c2", "terminal", '{"command":"rm ~/.hermes/reading-list.json"}')
    with ModelServer([add, peek, "It is on the list."]) as server:
        done = hermes("chat", "-q", "I want to read Dune.", *at(server))
        assert (done.stdout, done.returncode) == ("It is on the list.\n", 0), done.stderr
        first, second, third = (call.body for call in server.calls)
    offered = [tool["function"]["name"] for tool in first["tools"]]
    assert "book_add" in offered
    assert "book_list" not in offered, "its check says that there are no books"
    assert json.loads(second["messages"][-1]["content"]) == {"added": "Dune", "waiting": 1}
    assert "changed with book_add only" in third["messages"][-1]["content"]
    kept = json.loads((hermes_home / "reading-list.json").read_text())
    assert kept["turns"] == 1
    with ModelServer(["Dune."]) as server:
        hermes("chat", "-q", "What should I read?", *at(server))
        asked = server.calls[0].body
    assert asked["messages"][-1]["content"].endswith("1 books are on the reading list.")
    assert "book_list" in [tool["function"]["name"] for tool in asked["tools"]]


def test_its_commands(hermes, screen, hermes_home: Path) -> None:
    (hermes_home / "config.yaml").write_text(
        f"plugins:\n  enabled: [reading-list]\n{SETTINGS}"
    )  # the fixture of the screen has written its own
    book = {"title": "Emma", "author": "Jane Austen"}
    (hermes_home / "reading-list.json").write_text(json.dumps({"books": [book], "turns": 0}))
    assert hermes("books").stdout == "Emma\n"
    assert json.loads(hermes("books", "--json").stdout) == [book]
    with ModelServer(["Because of the wit."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("/books", "Emma")
        it.ask("/books next", "Because of the wit")
        assert it.leave() == 0
        assert "why I should read Emma" in server.calls[0].body["messages"][-1]["content"]


def test_its_skill_is_found_and_loaded(hermes) -> None:
    view = ToolCall("c1", "skill_view", '{"name":"reading-list:book-notes"}')
    with ModelServer([view, "I know how now."]) as server:
        done = hermes("chat", "-q", "take book notes", *at(server))
        assert done.stdout == "I know how now.\n", done.stderr
        first, second = (call.body["messages"] for call in server.calls)
    assert "reading-list:book-notes: Turn what the user says" in first[0]["content"]
    assert "Never replace older notes" in second[-1]["content"]

"""examples/memory-provider, installed and used."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.compat import install as install_documented_names
from hermes.compat import uninstall as uninstall_documented_names
from hermes.config.home import Home
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from hermes.memory import find_provider
from tests.integration.chat.conftest import at


@pytest.fixture(autouse=True)
def installed(install, configure) -> None:
    install("memory-provider/notebook", "memory/notebook")
    configure("memory:\n  provider: notebook\n")


def test_message_is_recalled_in_a_later_conversation(hermes, hermes_home: Path) -> None:
    with ModelServer(["I will."]) as server:
        done = hermes("chat", "-q", "Remember that deploys are on Friday.", *at(server))
        assert (done.stdout, done.returncode) == ("I will.\n", 0), done.stderr
        asked = server.calls[0].body
    assert "notebook_search" in [tool["function"]["name"] for tool in asked["tools"]]
    assert "notebook can be searched" in asked["messages"][0]["content"]
    assert "deploys are on Friday" in (hermes_home / "notebook.txt").read_text()
    search = ToolCall("c1", "notebook_search", '{"words":"deploys"}')
    with ModelServer([search, "On Friday."]) as server:
        done = hermes("chat", "-q", "When are deploys?", *at(server))
        assert done.stdout == "On Friday.\n", done.stderr
        asked, found = (call.body["messages"][-1]["content"] for call in server.calls)
    assert asked.startswith("When are deploys?")
    assert "Remember that deploys are on Friday." in asked
    assert found == '{"found": ["Remember that deploys are on Friday."]}'


def test_its_own_commands_are_there_while_it_is_in_use(hermes, hermes_home, configure) -> None:
    (hermes_home / "notebook.txt").write_text("the key is under the mat\ntea at four\n")
    shown = hermes("notebook", "show", "--find", "under the door")
    where = "~/.hermes/notebook.txt"
    assert shown.stdout == f"the key is under the mat\n1 kept in {where}\n", shown.stderr
    assert hermes("notebook", "clear").stdout == "forgotten\n"
    assert hermes("notebook", "show").stdout == f"0 kept in {where}\n"
    configure()
    gone = hermes("notebook", "show")
    assert gone.returncode == 2
    assert "there is no command 'notebook'" in gone.stderr


def test_setup_asks_what_its_schema_says(terminal, hermes_home: Path, configure) -> None:
    configure()
    child = terminal("memory", "setup", "notebook")
    child.expect("Sentences recalled into a turn")
    child.sendline("2")
    child.expect_exact("notebook")
    child.wait()
    assert (hermes_home / "notebook.json").read_text() == '{"most": "2"}'
    assert "provider: notebook" in (hermes_home / "config.yaml").read_text()


@pytest.fixture
def documented_names() -> Iterator[None]:
    install_documented_names()
    yield
    uninstall_documented_names()


@pytest.mark.usefixtures("documented_names")
def test_users_of_a_chat_never_share_a_notebook(hermes_home: Path) -> None:
    def of(user: str):
        provider = find_provider("notebook", Home(hermes_home))
        provider.initialize("s", hermes_home=str(hermes_home), user_id=user)
        return provider

    of("").sync_turn("Remember that the key is under the mat.", "I will.")
    of("telegram:7").sync_turn("Remember that the mat is red.", "I will.")
    assert "key" in of("").prefetch("Where is the mat under?")
    assert of("telegram:7").prefetch("Remember?") == "Remember that the mat is red."

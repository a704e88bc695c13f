"""Choosing a provider, trying it out, switching it off."""

import getpass
import json

import pytest

from tests.unit.cli.memory.conftest import MemoryCommand

MINE = """
import json, os, pathlib
from hermes.memory.provider import MemoryProvider

class Mine(MemoryProvider):
    name = "mine"
    def is_available(self): return bool(os.environ.get("MINE_KEY"))
    def initialize(self, session_id, **kwargs): self.turns = []
    def get_tool_schemas(self): return [{"name": "mine_look"}]
    def get_config_schema(self): return [
        {"key": "api_key", "description": "Your key", "secret": True, "required": True,
         "env_var": "MINE_KEY", "url": "https://mine.example"},
        {"key": "mode", "default": "fast", "choices": ["fast", "slow"]},
    ]
    def save_config(self, values, hermes_home):
        pathlib.Path(hermes_home, "mine.json").write_text(json.dumps(values))
    def sync_turn(self, user, assistant): self.turns.append(user)
    def prefetch(self, query): return chr(10).join(self.turns)

def register(ctx): ctx.register_memory_provider(Mine())
"""


@pytest.fixture
def mine(hermes: MemoryCommand, monkeypatch: pytest.MonkeyPatch) -> MemoryCommand:
    monkeypatch.setenv("MINE_KEY", "")  # put back after the test
    hermes.plugin("mine", MINE)
    return hermes


def test_setup_by_flags_keeps_secrets_in_dotenv_and_the_rest_with_the_provider(
    mine: MemoryCommand,
) -> None:
    outcome = mine("setup", "mine", "--set", "api_key=s3cret-key", "--set", "mode=slow")
    assert outcome.code == 0, outcome.err
    assert "s3cret" not in outcome.out
    assert mine.home.env_file.read_text() == "MINE_KEY=s3cret-key\n"
    assert json.loads((mine.home.root / "mine.json").read_text()) == {"mode": "slow"}
    assert mine.home.config_file.read_text() == "memory:\n  provider: mine\n"
    status = mine("status")
    assert status.code == 0
    assert "provider   mine (~/.hermes/plugins/memory/mine)" in status.out
    assert "ready      yes" in status.out and "MINE_KEY is set" in status.out


def test_setup_asks_for_every_field(mine: MemoryCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda _prompt: "typed-key")  # it reads the terminal
    outcome = mine("setup", typed="mine\n\n")
    assert outcome.code == 0, outcome.err
    assert "  1  mine           Mine." in outcome.out
    assert "Your key (https://mine.example)" in outcome.out
    assert "mode [fast|slow] (fast): " in outcome.out
    assert mine.home.env_file.read_text() == "MINE_KEY=typed-key\n"
    assert json.loads((mine.home.root / "mine.json").read_text()) == {"mode": "fast"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["setup"], "which provider?"),
        (["setup", "nope"], "there is no memory provider 'nope'"),
        (["setup", "mine"], "api_key is needed: Your key (https://mine.example)"),
        (["setup", "mine", "--set", "api_key"], "has no ="),
        (["setup", "mine", "--set", "colour=red"], "does not ask for colour"),
        (["setup", "mine", "--set", "api_key=k", "--set", "mode=odd"], "mode cannot be 'odd'"),
        (["test"], "there is no memory provider"),
    ],
)
def test_a_wrong_call_says_what_to_do_and_changes_nothing(
    mine: MemoryCommand, words: list[str], said: str
) -> None:
    outcome = mine(*words)
    assert outcome.code in (2, 3)
    assert said in outcome.err
    assert not mine.home.config_file.exists() and not mine.home.env_file.exists()


def test_a_key_that_is_there_is_not_needed_again(mine: MemoryCommand) -> None:
    mine.home.env_file.write_text("MINE_KEY=saved-before\n")
    assert mine("setup", "mine").code == 0
    assert mine.home.env_file.read_text() == "MINE_KEY=saved-before\n"


def test_one_that_cannot_save_is_not_switched_on(mine: MemoryCommand) -> None:
    file = mine.home.plugins / "memory" / "mine" / "__init__.py"
    file.write_text(MINE.replace("pathlib.Path(hermes_home", "raise OSError('disk full')  # ("))
    outcome = mine("setup", "mine", "--set", "api_key=k")
    assert outcome.code == 1
    assert "disk full" in outcome.err and "nothing was switched on" in outcome.err
    assert not mine.home.config_file.exists()


def test_off_leaves_the_data(local: MemoryCommand) -> None:
    local.says("My editor is vim.")
    assert local("off").code == 0
    assert (local.home.root / "holographic" / "memory.db").exists()
    assert "provider" not in local.home.config_file.read_text()
    assert local("off").code == 1
    assert local("status").out.startswith("no memory provider")


def test_the_local_provider_passes_the_test_and_leaves_nothing_behind(local: MemoryCommand) -> None:
    outcome = local("test")
    assert outcome.code == 0, outcome.out
    steps = [line.split("  ")[0] for line in outcome.out.splitlines()]
    assert steps == ["ok"] * 7 + ["holographic works"]
    assert "the word came back" in outcome.out and "the word is deleted" in outcome.out
    assert "0 facts of yours" in local().out


def test_a_provider_of_one_s_own_is_tried_by_name(mine: MemoryCommand) -> None:
    mine.home.env_file.write_text("MINE_KEY=saved\n")
    outcome = mine("test", "mine")
    assert outcome.code == 0, outcome.out
    assert "mine_look" in outcome.out and "the word came back" in outcome.out
    assert "left as it is, below the user hermes-memory-test" in outcome.out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("bool(os.environ", "False and (os.environ"), "failed  available    no"),
        (("self.turns = []", "raise OSError('no server')"), "failed  initialise   the memory"),
        (("self.turns.append(user)", "1 / 0"), "failed  save a turn  the memory provider mine"),
        (("import json, os", "import nothing_like_it, os"), "failed  load "),
    ],
)
def test_the_test_shows_where_it_fails(
    mine: MemoryCommand, change: tuple[str, str], said: str
) -> None:
    mine.home.env_file.write_text("MINE_KEY=saved\n")
    file = mine.home.plugins / "memory" / "mine" / "__init__.py"
    file.write_text(MINE.replace(*change))
    outcome = mine("test", "mine")
    assert outcome.code == 1
    assert said in outcome.out


def test_what_was_set_before_is_kept_unless_it_is_cleared(mine: MemoryCommand) -> None:
    saved = mine.home.root / "mem0.json"
    address = "base_url=http://localhost:8000"
    assert mine("setup", "mem0", "--set", "api_key=k1", "--set", address).code == 0
    assert mine("setup", "mem0", "--set", "api_key=k2").code == 0
    assert json.loads(saved.read_text()) == {"base_url": "http://localhost:8000"}
    assert mine("setup", "mem0", "--set", "base_url=").code == 0
    assert json.loads(saved.read_text()) == {}


@pytest.mark.parametrize("address", ["not a url", "ftp://x", "http://", "http://[", "http://x:y"])
def test_an_address_that_is_none_is_not_switched_on(hermes: MemoryCommand, address: str) -> None:
    outcome = hermes("setup", "mem0", "--set", "api_key=k", "--set", f"base_url={address}")
    assert outcome.code == 1
    assert "is not an HTTP address" in outcome.err and "http://localhost:8000" in outcome.err
    assert hermes("status", "--json").document["provider"] == ""


def test_ctrl_d_at_the_question_for_a_key_stops_without_a_change(
    mine: MemoryCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", ended)  # it reads the terminal
    assert mine("setup", "mine", typed="").code == 130
    assert mine("setup", typed="\n").code == 2, "nothing was chosen"
    assert not mine.home.env_file.exists() and not mine.home.config_file.exists()


def bundle(
    hermes: MemoryCommand, memory: str = MINE.replace('name = "mine"', 'name = "brought"')
) -> None:
    """A plugin whose `__init__.py` does not say that it brings a provider."""
    folder = hermes.home.plugins / "bundle"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: bundle\nversion: 1\ndescription: Many things.\n")
    (folder / "__init__.py").write_text("from .memory import register\n")
    (folder / "memory.py").write_text(memory)


def test_a_provider_that_an_enabled_plugin_brings_can_be_set_up(mine: MemoryCommand) -> None:
    bundle(mine)
    assert mine("setup", "brought", "--set", "api_key=k").code == 3
    mine.home.config_file.write_text("plugins:\n  enabled: [bundle]\n")
    mine = MemoryCommand("memory", mine.home.root)
    outcome = mine("setup", "brought", "--set", "api_key=k")
    assert outcome.code == 0, outcome.err
    assert "brought works" in mine("test").out
    status = mine("status")
    assert (status.code, status.err) == (0, "")
    assert status.out.startswith("provider   brought (plugin bundle)\n")


def test_status_says_when_there_is_no_such_provider(mine: MemoryCommand) -> None:
    bundle(mine, "def register(ctx): 1 / 0")
    mine.home.config_file.write_text("plugins: {enabled: [bundle]}\nmemory: {provider: brought}\n")
    status = mine("status")
    assert status.code == 1
    assert status.out.startswith("provider   brought (not found)\n")
    assert "problem    memory.provider: there is no memory provider 'brought'" in status.out
    assert status.err.count("plugin bundle is not loaded") == 1, "it is loaded once"


def test_one_of_a_disabled_plugin_is_neither_offered_nor_run(hermes: MemoryCommand) -> None:
    for name in ("mine", "other"):
        hermes.plugin(name, "raise RuntimeError('this code was run')")
    hermes.home.config_file.write_text("plugins:\n  disabled: [mine]\n")
    outcome = hermes("setup", "mine")
    assert outcome.code == 3
    assert "the memory provider mine belongs to a disabled plugin" in outcome.err
    assert "hermes plugins enable mine" in outcome.err
    menu = hermes("setup", typed="\n").out
    assert "1  other" in menu and "mine" not in menu


def test_what_cannot_be_set_up_is_not_in_the_menu(hermes: MemoryCommand) -> None:
    hermes.plugin("broken", "")
    (hermes.home.plugins / "memory" / "broken" / "plugin.yaml").write_text("a: [")
    bundle(hermes)
    folder = hermes.home.plugins / "bundle"
    (folder / "__init__.py").write_text("from .memory import register  # register_memory_provider")
    hermes.plugin("mine", MINE)
    hermes.home.config_file.write_text("plugins:\n  enabled: [bundle, mine]\n")
    outcome = hermes("setup", typed="\n")
    assert [line.split()[:2] for line in outcome.out.splitlines()[:2]] == [
        ["1", "mine"],
        ["2", "brought"],
    ]
    assert "bundle" not in outcome.out and "broken" not in outcome.out
    assert "broken is left out: " in outcome.err

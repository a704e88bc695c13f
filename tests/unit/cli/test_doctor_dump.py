import pytest

from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.ops.debug_report import changed_settings, debug_text
from hermes.ops.doctor.check import best_settings
from tests.cases import cases
from tests.unit.cli.terminal import call

CASES = cases(__file__)

KEY = "sk-or-v1-" + "0a1b2c3d" * 8


@pytest.fixture
def home(hermes_home):
    hermes_home.mkdir()
    (hermes_home / ".env").write_text(f"OPENROUTER_API_KEY={KEY}\nSHORT_KEY=abc12345\n")
    (hermes_home / "config.yaml").write_text(
        "model: {default: maker/one, provider: openrouter}\n"
        "agent: {max_turns: 7}\n"
        "terminal: {backend: ssh, ssh_host: private-machine, ssh_key: /home/me/.ssh/id}\n"
        "plugins: {enabled: [weather]}\n"
        "hooks: {pre_tool_call: [{command: /home/me/check --password hunter2222}]}\n"
    )
    return Home(hermes_home)


def hermes_dump(home, *arguments):
    outcome = call("dump", home, *arguments).expect()
    return outcome.out


def test_a_summary_names_versions_model_settings_and_keys_that_are_set(home):
    out = hermes_dump(home)
    for words in CASES["summary names versions model settings and"]:
        assert words in out
    for private in (KEY, KEY[-4:], "abc12345", "private-machine", "hunter2222", "/home/me"):
        assert private not in out


def test_show_keys_shows_the_ends_of_long_keys_only(home):
    out = hermes_dump(home, "--show-keys")
    assert "OPENROUTER_API_KEY sk-o…2c3d (.env)" in out and KEY not in out and "abc12345" not in out
    assert "SHORT_KEY ******** (.env)" in out


def test_a_home_that_is_not_there_or_broken_is_summed_up_too(hermes_home):
    assert "keys that are set:\n  none" in hermes_dump(Home(hermes_home))
    assert not hermes_home.exists()
    hermes_home.mkdir()
    (hermes_home / ".env").mkdir()
    assert "they cannot be read" in hermes_dump(Home(hermes_home))


async def test_the_text_for_a_chat_is_a_block_of_the_same(home):
    text = await debug_text(home, best_settings(home))
    assert text.startswith("```text\nhermes")
    assert text.endswith("\n```")
    assert KEY not in text


def test_defaults_are_not_listed():
    assert changed_settings(Settings()) == {}
    assert changed_settings(Settings(timezone="Europe/Berlin")) == {"timezone": '"Europe/Berlin"'}

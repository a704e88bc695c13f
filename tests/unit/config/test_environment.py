"""What child processes get of the environment, and what is shown of secrets."""

import pytest

from hermes.config import environment
from hermes.config.environment import (
    child_environment,
    is_secret_setting,
    is_secret_variable,
    mask,
    mask_settings,
)
from hermes.config.home import Home, use_home
from hermes.config.settings import ModelSettings, Settings, StoreSettings


def test_children_do_not_get_what_stands_in_the_env_file(monkeypatch, home) -> None:
    monkeypatch.setenv("TWILIO_ACCOUNT_SID", "AC1")
    home.env_file.write_text("TWILIO_ACCOUNT_SID=AC2\n")
    with use_home(home):
        assert "TWILIO_ACCOUNT_SID" not in child_environment()
        passed = child_environment(["TWILIO_ACCOUNT_SID", "NOT_SET"])
    assert passed["TWILIO_ACCOUNT_SID"] == "AC2"
    assert "NOT_SET" not in passed


def test_children_get_what_git_and_windows_need_and_named_secrets(monkeypatch) -> None:
    for name in ("SSH_AUTH_SOCK", "XAUTHORITY", "GIT_AUTHOR_NAME"):
        monkeypatch.setenv(name, "plain")
        assert child_environment()[name] == "plain"
    monkeypatch.setenv("GITHUB_TOKEN", "t")
    assert child_environment(["GITHUB_TOKEN"])["GITHUB_TOKEN"] == "t"


def test_reading_the_environment_changes_nothing(home: Home, monkeypatch) -> None:
    home.env_file.write_text("NEW_KEY=1\n")
    child_environment(["NEW_KEY"])
    assert environment.variable("NEW_KEY") is None


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [({}, False), ({"NO_COLOR": "1"}, True), ({"NO_COLOR": ""}, False), ({"TERM": "dumb"}, True)],
)
def test_colours_are_left_out_when_unwanted(monkeypatch, variables, wanted: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment.no_color() is wanted


def test_switches_have_several_spellings(monkeypatch) -> None:
    for text, on in (("1", True), ("true", True), ("0", False), ("off", False), ("", False)):
        monkeypatch.setenv("HERMES_QUIET", text)
        assert environment.flag("HERMES_QUIET") is on


def test_the_editor_is_the_users_own(monkeypatch) -> None:
    assert environment.editor() is None
    monkeypatch.setenv("EDITOR", "nano")
    monkeypatch.setenv("VISUAL", "code -w")
    assert environment.editor() == "code -w"


SECRET_SETTINGS = [
    "model.api_key", "platforms.slack.token", "platforms.webhook.extra.secret",
    "mcp_servers.a.env.ANYTHING", "mcp_servers.a.headers.Authorization",
    "skills.config.GITHUB_TOKEN",
]  # fmt: skip
PLAIN_SETTINGS = [
    "voice.record_key", "terminal.ssh_key", "custom_providers.0.key_env", "model.max_tokens",
]  # fmt: skip


def test_secret_names_are_recognised() -> None:
    names = ["OPENAI_API_KEY", "FAL_KEY", "slack_bot_token", "SUDO_PASSWORD"]
    assert [name for name in names if not is_secret_variable(name)] == []
    keys = SECRET_SETTINGS + PLAIN_SETTINGS
    assert [key for key in keys if is_secret_setting(tuple(key.split(".")))] == SECRET_SETTINGS


def test_a_masked_secret_gives_little_away() -> None:
    assert mask("short") == "********"
    assert mask("sk-0123456789abcdefXYZ1") == "sk-0…XYZ1"
    assert mask("${OPENAI_API_KEY}") == "${OPENAI_API_KEY}"
    assert mask("") == ""


def test_secrets_are_masked_wherever_they_stand() -> None:
    settings = Settings(
        model=ModelSettings(api_key="very-secret", base_url="http://h/known-secret"),
        store=StoreSettings(url="postgresql://me:pass@host/db"),
        timezone="known-secret",
    )
    shown = mask_settings(settings, frozenset({"known-secret"}))
    assert shown["model"]["api_key"] == "********"
    assert shown["store"]["url"] == "postgresql://me:********@host/db"
    assert shown["timezone"] == "********"

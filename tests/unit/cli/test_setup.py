"""`hermes setup`, by options and by answers."""

from pathlib import Path

import pytest
import yaml

from hermes.cli.commands import setup
from hermes.prompt import DEFAULT_AGENT_IDENTITY
from hermes.util.extras import extras
from tests.cases import cases
from tests.unit.cli.conftest import Run

CASES = cases(__file__)


def settings(hermes_home: Path) -> dict:
    return yaml.safe_load((hermes_home / "config.yaml").read_text()) or {}


def test_section_with_nothing_to_set_up_is_reported_in_one_line(hermes: Run) -> None:
    outcome = hermes("setup", "tts")
    assert (outcome.code, outcome.out.count("\n")) == (0, 1)
    assert "nothing to set up" in outcome.out


def test_the_gateway_shows_the_platforms_there_are(hermes: Run) -> None:
    hermes("setup", "gateway", "--non-interactive").expect(out="telegram")


def test_without_a_key_and_without_questions_the_embedded_model_answers(hermes, hermes_home):
    hermes("setup", "--non-interactive").expect(out="on local")
    assert not hermes_home.exists()


def test_options_set_everything_and_ask_nothing(hermes, hermes_home, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-or-0123456789abcdef")
    outcome = hermes(
        "setup", "--non-interactive", "--provider", "openrouter", "--model", "some/model",
        "--api-key-env", "MY_KEY", "--terminal-backend", "local", "--toolsets", "file,terminal",
        "--approvals", "deny", "--max-turns", "7",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert settings(hermes_home) == CASES["options set everything and ask nothing"]
    assert "sk-or-0123456789abcdef" in (hermes_home / "auth.json").read_text()
    assert (hermes_home / "auth.json").stat().st_mode & 0o077 == 0
    assert "some/model on openrouter" in outcome.out
    assert "sk-or-0123456789abcdef" not in outcome.out + outcome.err


def test_a_key_is_piped_in_and_the_default_model_taken(hermes: Run, hermes_home: Path) -> None:
    words = ("setup", "--provider", "anthropic", "--api-key-stdin")
    hermes(*words, piped="sk-ant-0123456789\n").expect()
    assert settings(hermes_home)["model"]["provider"] == "anthropic"
    assert settings(hermes_home)["model"]["default"].startswith("claude")


def test_the_key_of_an_own_endpoint_stays_out_of_the_settings(hermes, hermes_home):
    address = "http://127.0.0.1:9/v1"
    words = ("--base-url", address, "--model", "qwen3", "--api-key-stdin")
    assert hermes("setup", *words, piped="own-key-123").code == 0
    assert settings(hermes_home)["model"] == {
        "provider": "custom",
        "default": "qwen3",
        "base_url": address,
        "api_key": "${CUSTOM_API_KEY}",
    }
    assert "own-key-123" in (hermes_home / ".env").read_text()
    assert (hermes_home / ".env").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("words", "code", "message"), CASES["mistakes are one clear line and"])
def test_mistakes_are_one_clear_line_and_nothing_is_saved(
    hermes, hermes_home, words, code, message
):
    hermes("setup", *words, piped="a-key-123456").expect(code, err=message)
    assert not (hermes_home / "config.yaml").exists()


def test_the_embedded_model_can_be_a_file_of_the_user(hermes, hermes_home, tmp_path):
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF and more")
    outcome = hermes("setup", "model", typed=f"local\n{tmp_path}/none.gguf\n{own}\n")
    outcome.expect(out="path of a .gguf file")
    assert "there is no model" in outcome.out
    assert settings(hermes_home)["model"] == {"provider": "local", "default": str(own)}
    hermes("model", "show").expect(out="own on local")


def test_enter_keeps_everything(hermes: Run, hermes_home: Path) -> None:
    hermes("setup", typed="\n" * 20).expect(out="on local")
    assert not (hermes_home / "config.yaml").exists()
    assert not (hermes_home / ".setup.json").exists()


def test_answers_are_saved_one_by_one(hermes: Run, hermes_home: Path) -> None:
    hermes("setup", "terminal", typed="ssh\nbox.example\nme\n2222\n\n60\n\n").expect()
    assert settings(hermes_home)["terminal"] == CASES["answers are saved one by one"]


def test_an_answer_that_does_not_fit_is_asked_again(hermes: Run, hermes_home: Path) -> None:
    outcome = hermes("setup", "agent", typed="perhaps\n3\n\nlots\n12\n\n\n\n")
    assert settings(hermes_home) == {"approvals": {"mode": "deny"}, "agent": {"max_turns": 12}}
    assert outcome.out.count("maximum model calls per turn") == 2


def test_tools_are_switched_until_enter(hermes: Run, hermes_home: Path) -> None:
    outcome = hermes("setup", "tools", typed="web, nonsense\n\n\n")
    assert "nonsense" in outcome.out
    assert "-web" in settings(hermes_home)["platform_toolsets"]["cli"]
    hermes("setup", "tools", typed="web\n\n\n")
    assert "-web" not in settings(hermes_home)["platform_toolsets"]["cli"]


def test_second_run_continues_where_the_first_was_stopped(hermes: Run, hermes_home: Path) -> None:
    hermes("setup", typed="local\n0.5b\nn\n\n\n\x03").expect(
        130, err=["stopped; what you answered is saved", "hermes setup"]
    )
    assert settings(hermes_home)["model"]["provider"] == "local"
    second = hermes("setup", typed="\n" * 20)
    assert "stopped; done: model, terminal" in second.out
    assert "The model that answers" not in second.out and "How the agent works" in second.out
    assert not (hermes_home / ".setup.json").exists()


def test_beginning_anew_asks_and_keeps_the_old_settings_and_everything_else(hermes, hermes_home):
    hermes("setup", "--approvals", "deny")
    (hermes_home / "state.db").write_bytes(b"sessions")
    assert hermes("setup", "--reset", typed="n\n").code == 1
    assert settings(hermes_home)["approvals"] == {"mode": "deny"}
    assert hermes("setup", "--reset", "--non-interactive").code == 0
    assert settings(hermes_home) == {}
    (kept,) = hermes_home.glob("config.yaml.*.bak")
    assert "deny" in kept.read_text()
    assert (hermes_home / "state.db").read_bytes() == b"sessions"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the installer says it installed."""
    packages: list[str] = []

    async def install(name: str) -> list[str]:
        return packages

    monkeypatch.setattr(setup, "install_extra", install)
    return packages


def test_setup_reports_what_was_installed_and_the_next_step(hermes, installed):
    installed += ["psycopg 3.3", "psycopg-binary 3.3"]
    outcome = hermes("setup", "postgres")
    assert (outcome.code, outcome.out.splitlines()) == (
        0,
        [
            "installed 2 packages for postgres: psycopg 3.3, psycopg-binary 3.3",
            f"next: {extras()['postgres'].next_step}",
        ],
    )


def test_installed_extra_is_reported(hermes: Run, installed: list[str]) -> None:
    outcome = hermes("setup", "otel").expect()
    assert outcome.out.startswith("otel is already installed\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("otl", "did you mean otel?"), ("modle", "model"), ("qqq", "hermes setup --help")],
)
def test_an_unknown_name_is_refused_with_near_ones(hermes: Run, name: str, hint: str) -> None:
    outcome = hermes("setup", name)
    assert (outcome.code, outcome.out) == (2, "")
    assert hint in outcome.err


def test_setup_writes_a_starter_soul_and_never_overwrites_one(hermes, hermes_home: Path) -> None:
    soul = hermes_home / "SOUL.md"
    hermes("setup", "--max-turns", "9").expect(out="SOUL.md says who the agent is")
    assert soul.read_text() == f"{DEFAULT_AGENT_IDENTITY}\n"
    soul.write_text("You are Pan.\n")
    assert "SOUL.md" not in hermes("setup", "--approvals", "deny").out
    hermes("setup", typed="\n" * 20)
    assert soul.read_text() == "You are Pan.\n"

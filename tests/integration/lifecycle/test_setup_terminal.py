"""`hermes setup` at a real terminal, and an import that the next start finishes."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from hermes.cli.main import main
from hermes.config.home import Home
from hermes.core.testing import ModelServer
from hermes.ops import restore
from hermes.ops.backup import copy_home, open_archive
from tests.screens.emulated import Emulated

RUN = [sys.executable, str(Path(__file__).with_name("run_command.py"))]


@pytest.fixture
def terminal(tmp_path: Path):
    shown: list[Emulated] = []

    def start(*words: str) -> Emulated:
        shown.append(Emulated([*RUN, *words], tmp_path, columns=90, rows=40))
        return shown[-1]

    yield start
    for one in shown:
        one.close()


def saved(hermes_home: Path) -> dict:
    return yaml.safe_load((hermes_home / "config.yaml").read_text()) or {}


def test_from_nothing_to_a_first_answer(terminal, hermes_home: Path) -> None:
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text("sessions:\n  auto_title: false\n")
    with ModelServer(["It is forty-two."]) as server:
        it = terminal("setup")
        it.sees("The model that answers").sees_last("Which provider?")
        it.type("custom").sees_last("▸ custom").press("enter")
        it.sees("URL, such as").say(f"{server.url}/v1").sees("API key (not shown")
        it.say("secret-key-1").sees_last("▸ lab-model").press("enter")
        it.sees("now using lab-model on custom")
        it.sees_last("run commands (Esc keeps local)").press("escape").sees("time limit").say("")
        it.sees_last("Esc when done").press("escape")
        it.sees_last("approval of dangerous commands (Esc").type("smart").sees_last("▸ smart")
        it.press("enter").sees("approval of dangerous commands: smart")
        for question in ("reasoning effort", "maximum model calls", "daily spending", "time zone"):
            it.sees(question).say("")
        it.sees("Try it: type a question").say("what is the answer?").sees("It is forty-two.")
        assert it.ended() == 0
        assert server.requests[-1].headers["authorization"] == "Bearer secret-key-1"
    assert saved(hermes_home)["approvals"]["mode"] == "smart"
    assert saved(hermes_home)["model"]["api_key"] == "${CUSTOM_API_KEY}"
    assert b"secret-key-1" not in it.raw


def test_enter_takes_the_only_model_of_an_own_endpoint(terminal, hermes_home: Path) -> None:
    with ModelServer([]) as server:
        it = terminal("setup", "model")
        it.sees_last("Which provider?").type("custom").sees_last("▸ custom").press("enter")
        it.sees("URL, such as").say(f"{server.url}/v1")
        it.sees("API key (not shown").say("").sees_last("▸ lab-model").press("enter")
        it.sees("now using lab-model on custom").sees("Try it").say("")
        assert it.ended() == 0
    assert saved(hermes_home)["model"]["default"] == "lab-model"


def test_an_own_endpoint_that_does_not_answer_can_be_saved(terminal, hermes_home: Path) -> None:
    it = terminal("setup", "model")
    it.sees_last("Which provider?").type("custom").sees_last("▸ custom").press("enter")
    it.sees("URL, such as").say("http://127.0.0.1:9/v1")
    it.sees("API key (not shown").say("").sees("cannot reach custom").sees("model (number")
    it.say("").sees("no model chosen: the provider is unchanged").sees("Try it").say("")
    assert it.ended() == 0 and not (hermes_home / "config.yaml").exists()
    again = terminal("setup", "model")
    again.sees_last("Which provider?").type("custom").sees_last("▸ custom").press("enter")
    again.sees("URL, such as").say("http://127.0.0.1:9/v1")
    again.sees("API key (not shown").say("").sees("model (number").say("qwen3")
    again.sees("now using qwen3 on custom").sees("Try it").say("")
    assert again.ended() == 0
    assert saved(hermes_home)["model"]["base_url"] == "http://127.0.0.1:9/v1"


def test_ctrl_c_keeps_the_answers_for_the_next_run(terminal, hermes_home: Path) -> None:
    first = terminal("setup")
    first.sees_last("Which provider?").type("embedded").press("enter")
    first.sees_last("Which model?").press("enter").sees("download its weights now").say("n")
    first.sees_last("run commands (Esc keeps local)").press("ctrl-c").sees(
        "stopped; what you answered is saved"
    )
    first.sees("to continue: hermes setup")
    assert first.ended() == 130
    assert saved(hermes_home)["model"]["provider"] == "local"
    second = terminal("setup")
    second.sees("stopped; done: model").sees_last("run commands (Esc keeps local)").press("ctrl-c")
    assert second.ended() == 130


def test_a_cut_short_import_is_finished_by_the_next_start(hermes_home, tmp_path, capsys):
    other = tmp_path / "other"
    for root, text in ((other, "new"), (hermes_home, "old")):
        root.mkdir()
        (root / "SOUL.md").write_text(text)
        (root / "config.yaml").write_text(f"agent:\n  system_prompt: {text}\n")
    archive = tmp_path / "a.zip"
    asyncio.run(copy_home(Home(other), archive, datetime.now(UTC)))
    exchange = restore.RestoreTransaction(Home(hermes_home))
    with open_archive(archive) as found:
        exchange.stage(found)
    exchange._write(restore.Journal(("SOUL.md", "config.yaml"), ("SOUL.md", "config.yaml")))
    exchange._forward("SOUL.md")
    assert main(["config", "get", "agent.system_prompt"]) == 0
    assert capsys.readouterr().out == "new\n"
    assert (hermes_home / "SOUL.md").read_text() == "new"
    assert not (hermes_home / ".import").exists()

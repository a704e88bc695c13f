"""`hermes model` and `hermes local`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hermes.cli.main import main
from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.testing import ModelServer, Refuse, Step
from tests.unit.cli.terminal import Outcome

Run = Callable[..., Outcome]


@pytest.fixture
def hermes(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> Outcome:
        code = main(list(words))
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def saved(hermes_home: Path) -> Callable[[], dict]:
    return lambda: yaml.safe_load((hermes_home / "config.yaml").read_text())["model"]


def test_the_price_of_a_model_at_an_own_endpoint_can_be_set(hermes):
    hermes("model", "set", "custom:qwen3.5", "--base-url", "http://127.0.0.1:9/v1").expect()
    hermes("model", "show").expect(out="price        unknown")
    key = 'providers.custom.models."qwen3.5".price'
    hermes("config", "set", key, "{input: 0.2, output: 0.8, cache_read: 0.05}").expect()
    hermes("model", "show").expect(out="$0.2 in, $0.8 out per million tokens")


def test_a_choice_is_saved_once_it_is_known_to_work(hermes: Run, saved, hermes_home: Path) -> None:
    hermes("model", "set", "groq:openai/gpt-oss-120b").expect(4, err="no key for Groq")
    assert not (hermes_home / "config.yaml").exists()
    hermes("auth", "add", "groq", "--api-key", "gsk_0000000000000000")
    done = hermes("model", "set", "groq:openai/gpt-oss-120b")
    assert done.out == "now using openai/gpt-oss-120b on groq\n"
    assert saved() == {"provider": "groq", "default": "openai/gpt-oss-120b"}


def test_a_saved_embedded_model_is_found_again(hermes: Run, saved, own_model: Path) -> None:
    for name, label in [("1.5b", "Qwen2.5-Coder 1.5B Instruct"), (str(own_model), own_model.stem)]:
        hermes("model", "set", f"local:{name}").expect(out=label)
        assert saved()["default"] == name
        hermes("model", "show").expect(out=[f"{label} on local", "local, no cost"])


def test_a_model_without_a_provider_keeps_the_one_in_use(hermes: Run, saved) -> None:
    hermes("model", "set", "custom:one", "--base-url", "http://127.0.0.1:9/v1")
    assert saved() == {"provider": "custom", "default": "one", "base_url": "http://127.0.0.1:9/v1"}
    hermes("model", "set", "two:7b")
    assert saved()["default"] == "two:7b"
    assert saved()["base_url"] == "http://127.0.0.1:9/v1"


def test_another_provider_does_not_keep_the_address_and_the_key(hermes: Run, saved) -> None:
    hermes("model", "set", "custom:one", "--base-url", "http://127.0.0.1:9/v1")
    hermes("config", "set", "model.context_length", "1000")
    hermes("model", "set", "ollama:qwen3")
    assert saved() == {"provider": "ollama", "default": "qwen3"}


def test_a_name_the_endpoint_does_not_list_is_doubted(hermes: Run) -> None:
    with ModelServer([], models=["wise-1", "quick-2"]) as server:
        hermes("model", "set", "custom:wise-1", "--base-url", f"{server.url}/v1")
        hermes("models")
        done = hermes("model", "set", "wise-11")
    assert "does not list wise-11; did you mean wise-1?" in done.err


def test_model_in_use_is_shown_with_the_reason(hermes: Run, monkeypatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_0123456789abcdef0123")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-0123456789abcdef0123")
    shown = hermes("model", "show").expect(
        out=[
            "on deepseek",
            "because      DEEPSEEK_API_KEY in the environment",
            "also set up  groq (GROQ_API_KEY in the environment)",
        ]
    )
    assert "0123456789abcdef" not in shown.out


def test_without_a_terminal_the_wizard_only_shows(hermes: Run) -> None:
    assert "because      no key is configured" in hermes("model").out


def test_unusable_choice_is_reported_with_the_next_command(hermes: Run) -> None:
    hermes("config", "set", "model.provider", "groq")
    hermes("model", "show").expect(1, out=["no key for Groq", "hermes auth add groq"])
    assert hermes("status").code == 1


def answering(request) -> Step:
    """A model that can do everything the test asks for."""
    body = request.body
    if "tools" in body:
        return Step((ToolCall("c", "report_colour", '{"colour":"blue"}'),))
    return Step((Thinking("hm"), Text("red and ready")))


def test_a_model_is_tried_out(hermes: Run) -> None:
    with ModelServer(answering) as server:
        hermes("model", "set", "custom:lab-model", "--base-url", f"{server.url}/v1")
        done = hermes("model", "test").expect()
        for name in ("answer", "streaming", "tools", "images", "reasoning", "caching"):
            (line,) = [line for line in done.out.splitlines() if line.split()[0] == name]
            assert line.split()[1] == "works", line
        found = json.loads(hermes("model", "test", "--json").out)
    assert {finding["verdict"] for finding in found["findings"]} == {"works"}


def test_a_model_that_does_not_answer_fails_the_test(hermes: Run) -> None:
    with ModelServer(lambda _request: Step(faults=(Refuse("unauthorized"),))) as server:
        hermes("model", "set", "custom:lab-model", "--base-url", f"{server.url}/v1")
        done = hermes("model", "test")
    assert done.code == 1
    assert "refused the key" in done.out


def test_status_shows_fallbacks_budget_and_whether_the_endpoint_answers(hermes: Run) -> None:
    with ModelServer([]) as server:
        hermes("model", "set", "custom:lab-model", "--base-url", f"{server.url}/v1")
        hermes("config", "set", "budget.day_usd", "5")
        hermes("config", "set", "fallback_providers", "[{provider: groq, model: m}]")
        shown = hermes("status", "--deep")
    assert shown.code == 0
    assert "lists 1 model" in shown.out and "fallback     m on groq: no key for Groq" in shown.out
    assert "budget       $5 a day; $0.00 spent today" in shown.out
    hermes("status", "--deep").expect(1, out="cannot reach")


def test_status_as_json_holds_no_key(hermes: Run) -> None:
    hermes("auth", "add", "groq", "--api-key", "gsk_0123456789abcdef0123")
    text = hermes("status", "--all", "--json").out
    status = json.loads(text)
    assert status["models"]["main"]["provider"] == "groq"
    assert set(status["models"]["auxiliary"]) >= {"vision", "compression", "title_generation"}
    assert "0123456789abcdef" not in text


def test_explain_says_which_source_won_and_what_it_comes_to(hermes: Run, monkeypatch) -> None:
    monkeypatch.setenv("HERMES_INFERENCE_PROVIDER", "groq")
    hermes("config", "set", "model.provider", "ollama")
    hermes("config", "set", "model.default", "qwen3")
    message = hermes("config", "explain", "model.provider").out
    assert 'instead of "groq" from HERMES_INFERENCE_PROVIDER in the environment' in message
    assert "model        qwen3 on ollama" in message
    found = json.loads(hermes("config", "explain", "model.provider", "--json").out)
    assert found["comes_to"]["main"]["model"] == "qwen3"


def test_trying_a_model_out_leaves_no_store_behind(hermes: Run, hermes_home: Path) -> None:
    with ModelServer(answering) as server:
        hermes("model", "set", "custom:lab-model", "--base-url", f"{server.url}/v1")
        hermes("model", "test")
    assert not (hermes_home / "state.db").exists()


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


def test_the_list_shows_what_is_known_and_what_is_in_use(capsys):
    assert main(["local", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* 0.5b")
    assert "not downloaded" in lines[0]
    assert lines[1].startswith("  1.5b")


def test_the_list_as_json(capsys, hermes_home: Path):
    (hermes_home / "models").mkdir(parents=True)
    (hermes_home / "models" / "mine.gguf").write_bytes(b"GGUF")
    assert main(["local", "list", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert models["0.5b"]["in_use"]
    assert models["mine.gguf"]["fetched"]


def test_a_file_of_ones_own_can_be_used(capsys, own_model: Path, hermes_home: Path):
    assert main(["local", "use", str(own_model)]) == 0
    assert str(own_model) in (hermes_home / "config.yaml").read_text()
    assert main(["local", "list"]) == 0
    assert f"* {own_model}" in capsys.readouterr().out


def test_going_back_to_a_known_model(own_model: Path, hermes_home: Path):
    main(["local", "use", str(own_model)])
    assert main(["local", "use", "1.5b"]) == 0
    assert "model: 1.5b" in (hermes_home / "config.yaml").read_text()


def test_fetched_weights_can_be_deleted(hermes_home: Path):
    models = hermes_home / "models"
    models.mkdir(parents=True)
    (models / "mine.gguf").write_bytes(b"GGUF")
    assert main(["local", "rm", "mine.gguf", "--yes"]) == 0
    assert list(models.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["use", "nonsense"], "there is no model 'nonsense'"),
        (["use", "/etc/passwd"], "is not a GGUF file"),
        (["pull", "http://127.0.0.1:9/page.html"], "does not name a .gguf file"),
        (["pull", "http://127.0.0.1:9/x.gguf#sha256=12"], "is not a checksum"),
        (["rm", "1.5b", "--yes"], "is not on this machine"),
    ],
)
def test_wrong_names_are_refused_in_one_line(capsys, arguments, words):
    assert main(["local", *arguments]) == 2
    complaint = capsys.readouterr().err.splitlines()
    assert words in complaint[0]
    assert len(complaint) <= 2

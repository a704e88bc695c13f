"""Models and settings by their documented functions."""

from importlib import import_module
from pathlib import Path

import httpx2
import pytest

from hermes.core.errors import ConfigError, RateLimited, UsageError
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]


@pytest.fixture
def settings(hermes_home: Path):
    def write(text: str) -> Path:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(text)
        return hermes_home / "config.yaml"

    return write


def model_of(server: ModelServer) -> str:
    return f"model:\n  provider: custom\n  default: lab-model\n  base_url: {server.url}/v1\n"


def test_call_llm_asks_the_main_model(settings) -> None:
    with ModelServer(["Hi."]) as server:
        settings(model_of(server))
        reply = import_module("agent.auxiliary_client").call_llm(messages=ASKED, max_tokens=50)
        body = server.calls[0].body
    assert reply.choices[0].message.content == "Hi."
    assert reply.choices[0].message.tool_calls is None
    assert reply.model == "lab-model"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert [each["content"] for each in body["messages"]] == ["Be brief.", "Hello?"]


def test_a_task_has_its_own_model_and_tools_can_be_called(settings) -> None:
    look = {
        "type": "function",
        "function": {"name": "look", "description": "", "parameters": {"type": "object"}},
    }
    with ModelServer([ToolCall("c1", "look", '{"at":1}')]) as server:
        task = f"auxiliary:\n  vision:\n    provider: main\n    model: small\n{model_of(server)}"
        settings(task)
        call_llm = import_module("agent.auxiliary_client").call_llm
        reply = call_llm(task="vision", messages=ASKED, tools=[look])
        assert server.calls[0].body["model"] == "small"
    call = reply.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "look", '{"at":1}')
    with pytest.raises(UsageError, match="there is no auxiliary task 'sight'"):
        call_llm(task="sight", messages=ASKED)
    with pytest.raises(TypeError, match="no parameter 'modle'"):
        call_llm(messages=ASKED, modle="x")


def test_a_client_of_a_provider(settings) -> None:
    with ModelServer(["Hi."]) as server:
        settings("")
        resolve = import_module("agent.auxiliary_client").resolve_provider_client
        client, model = resolve("custom", "other", base_url=f"{server.url}/v1", api_key="k")
        reply = client.chat.completions.create(model=model, messages=ASKED)
        assert reply.choices[0].message.content == "Hi."
        assert server.calls[0].body["model"] == model == "other"
        assert server.calls[0].headers["authorization"] == "Bearer k"
        with pytest.raises(UsageError, match="does not stream"):
            client.chat.completions.create(messages=ASKED, stream=True)


def test_the_provider_of_conversations_can_be_named(settings) -> None:
    with ModelServer(["Hi."]) as server:
        settings(model_of(server))
        client, model = import_module("agent.auxiliary_client").resolve_provider_client("custom")
        reply = client.chat.completions.create(model=model, messages=ASKED)
        assert (model, reply.choices[0].message.content) == ("lab-model", "Hi.")
        find = import_module("hermes_cli.runtime_provider").resolve_runtime_provider
        assert find("custom") == find()
        assert find("custom", model="other")["model"] == "other"


def test_runtime_provider_is_resolved_with_address_and_key(settings, monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-123456")
    settings("model:\n  provider: anthropic\n  default: claude-sonnet-4-5\n")
    found = import_module("hermes_cli.runtime_provider").resolve_runtime_provider()
    assert found["provider"] == "anthropic"
    assert found["api_mode"] == "anthropic_messages"
    assert found["base_url"].startswith("https://api.anthropic.com")
    assert found["api_key"] == "sk-ant-123456"
    assert "ANTHROPIC_API_KEY" in found["source"]
    auth = import_module("hermes_cli.auth")
    assert (auth.resolve_provider(), auth.resolve_provider("claude")) == ("anthropic",) * 2
    with pytest.raises(ConfigError, match="unknown provider 'missing'"):
        auth.resolve_provider("missing")
    own = {"base_url": "http://127.0.0.1:1/v1", "api_key": "k", "model": "m"}
    chosen = import_module("hermes_cli.runtime_provider").resolve_runtime_provider(**own)
    assert chosen["provider"] == "custom"
    assert (chosen["base_url"], chosen["api_key"]) == (own["base_url"], "k")


def test_the_keys_of_a_provider(settings, monkeypatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-123456")
    settings("")
    load_pool = import_module("agent.credential_pool").load_pool
    pool = load_pool("openrouter")
    assert pool.has_credentials()
    assert (len(pool), pool.select()) == (1, "sk-or-123456")
    assert not load_pool("deepseek").has_credentials()


def test_switching_the_model(settings) -> None:
    with ModelServer([]) as server:
        file = settings(f"# mine\n{model_of(server)}")
        switch = import_module("hermes_cli.model_switch").switch_model
        assert switch("bigger", save=False)["model"] == "bigger"
        assert "bigger" not in file.read_text()
        assert switch("bigger")["provider"] == "custom"
    assert file.read_text().startswith("# mine")
    assert "default: bigger" in file.read_text()


def test_context_length_of_a_model_is_found(settings) -> None:
    settings("model:\n  default: mine\n  context_length: 5000\n")
    length = import_module("agent.model_metadata").get_model_context_length
    assert length("mine") == 5000
    assert length("claude-sonnet-4-5", provider="anthropic") == 200_000
    assert length("anthropic:claude-sonnet-4-5") == 200_000
    assert length("unheard-of", base_url="http://127.0.0.1:1/v1") > 0
    estimate = import_module("agent.model_metadata").estimate_request_tokens_rough
    assert estimate(ASKED, [{"name": "a tool"}]) > estimate(ASKED)


def test_errors_are_classified() -> None:
    classify = import_module("agent.error_classifier").classify_api_error

    class StatusError(Exception):
        def __init__(self, status: int, message: str) -> None:
            super().__init__(message)
            self.status_code, self.body = status, {"error": {"message": message}}

    slow = classify(StatusError(429, "slow down"))
    assert (slow.reason, slow.status_code) == ("rate_limited", 429)
    assert slow.retryable
    assert slow.should_rotate_credential
    assert slow.should_fallback
    long = classify(StatusError(400, "maximum context length is 8192 tokens"))
    assert (long.reason, long.should_compress, long.retryable) == ("context_overflow", True, False)
    assert classify(StatusError(401, "bad key")).reason == "credential_refused"
    assert classify(StatusError(503, "busy")).retryable
    assert classify(httpx2.ConnectError("refused")).reason == "unreachable"
    assert classify(TimeoutError("late")).reason == "stream_stalled"
    waiting = classify(RateLimited("wait", retry_after=3.0, status=429))
    assert waiting.retry_after == 3.0


def test_settings_as_a_dict(settings, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_PLACE", "http://secret.example")
    file = settings(
        "# mine\nterminal:\n  timeout: 50  # short\nmodel:\n  base_url: ${SECRET_PLACE}\n"
    )
    config = import_module("hermes_cli.config")
    found = config.load_config()
    assert found["terminal"]["timeout"] == 50
    assert found["model"]["base_url"] == "http://secret.example"
    assert found["agent"] == config.DEFAULT_CONFIG["agent"]
    found["terminal"]["timeout"] = 70
    found["my_plugin"] = {"key": [1, 2]}
    config.save_config(found)
    assert file.read_text() == (
        "# mine\nterminal:\n  timeout: 70  # short\nmodel:\n  base_url: ${SECRET_PLACE}\n"
        "my_plugin:\n  key:\n  - 1\n  - 2\n"
    )
    assert config.load_config()["my_plugin"] == {"key": [1, 2]}
    config.save_config({"terminal": {"timeout": None}})
    assert "timeout" not in file.read_text()
    assert "my_plugin" in file.read_text(), "what is not in the dict stays"


def test_the_list_of_skills(settings, hermes_home: Path) -> None:
    settings("skills:\n  index_chars: 100000\n")
    folder = hermes_home / "skills" / "garden" / "roses"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: roses\ndescription: Prune roses.\n---\nCut.\n")
    text = import_module("agent.prompt_builder").build_skills_system_prompt()
    assert "garden:\n  - roses: Prune roses." in text

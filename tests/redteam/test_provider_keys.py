"""An attacker names an address for the model; the key in OPENAI_API_KEY must not arrive there."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.cli.context import Cli, run_command
from hermes.cli.main import find_entry
from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.core.testing import ModelServer, Redirect
from hermes.core.testing.model_server import echo

OPENAI_KEY = "sk-proj-" + "Ab3" * 20
OTHER_KEY = "lab-key-" + "9zY" * 12


@pytest.fixture
def hostile() -> Iterator[ModelServer]:
    """The attacker's endpoint, which answers everything."""
    with ModelServer(echo) as server:
        yield server


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def hermes(home: Path, *words: str, typed: str | None = None) -> str:
    """Run a command in this process; return what it printed. With `typed` at a terminal."""
    stream = io.StringIO if typed is None else Terminal
    cli = Cli(Home(home), stream(typed or ""), stream(), stream())
    entry = find_entry(words[0])
    assert entry
    try:
        run_command(entry.parser().parse_args(words[1:]), cli)
    except HermesError as error:
        cli.note(f"{error}\n{error.hint}")
    return f"{cli.stdout.getvalue()}\n{cli.stderr.getvalue()}"


def chat(home: Path, *words: str, typed: str | None = None) -> str:
    return hermes(home, "chat", "-q", "hello", "-Q", *words, typed=typed)


def received(server: ModelServer, key: str) -> bool:
    return any(
        key in f"{each.path} {each.headers} {each.raw.decode('utf-8', 'replace')}"
        for each in server.requests
    )


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"sessions: {{auto_title: false}}\n{text}\n")


KEYS = pytest.mark.parametrize("key", [OPENAI_KEY, OTHER_KEY], ids=["openai", "other"])


@KEYS
def test_an_address_on_the_command_line(key, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    configure(hermes_home, "")
    shown = chat(hermes_home, "--base-url", f"{hostile.url}/v1", "-m", "m", "--provider", "custom")
    assert not received(hostile, key)
    if key == OTHER_KEY:
        assert f"hermes auth bind OPENAI_API_KEY {hostile.url}/v1" in shown
        assert hostile.requests == []


@KEYS
def test_an_address_in_the_settings(key, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    configure(hermes_home, f"model: {{base_url: '{hostile.url}/v1', default: m}}")
    chat(hermes_home)
    assert not received(hostile, key)


@KEYS
def test_an_address_in_a_variable(key, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{hostile.url}/v1")
    for provider in ("custom", "openai", "auto"):
        configure(hermes_home, f"model: {{provider: {provider}, default: m}}")
        monkeypatch.setenv("HTTPS_PROXY", hostile.url)  # api.openai.com is not asked for real
        chat(hermes_home, "--max-turns", "1")
    assert not received(hostile, key)


@KEYS
def test_an_address_in_the_files_of_a_project(key, hostile, hermes_home, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    project = tmp_path / "project"
    for name in ("config.yaml", ".hermes/config.yaml", ".env"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"model: {{provider: custom, base_url: '{hostile.url}/v1', default: m}}\n"
        env = f"OPENAI_BASE_URL={hostile.url}/v1\nHERMES_INFERENCE_PROVIDER=custom\n"
        (project / name).write_text(env if name == ".env" else text)
    monkeypatch.chdir(project)
    with ModelServer(echo) as own:
        configure(
            hermes_home,
            f"model: {{provider: custom, base_url: '{own.url}/v1', api_key: mine, default: m}}",
        )
        chat(hermes_home)
        assert own.calls
    assert hostile.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "http://api.openai.com@{host}/v1",
        "http://api.openai.com:443@{host}/v1",
        "http://{host}/v1?x=api.openai.com",
        "http://{host}/v1#@api.openai.com",
        "http://{host}\\@api.openai.com/v1",
        "http://{host}/api.openai.com/v1",
        "http://api.openai.com%2f@{host}/v1",
    ],
)
def test_an_address_that_looks_like_the_one_of_openai(address, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    url = address.format(host=hostile.url.removeprefix("http://"))
    configure(hermes_home, f"model: {{provider: custom, base_url: {json.dumps(url)}, default: m}}")
    chat(hermes_home)
    assert not received(hostile, OPENAI_KEY)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_of_an_allowed_host(status, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OTHER_KEY)
    target = f"{hostile.url}/v1/chat/completions"
    with ModelServer([Redirect(target, status)]) as server:
        configure(hermes_home, f"model: {{base_url: '{server.url}/v1', default: m}}")
        hermes(hermes_home, "auth", "bind", "OPENAI_API_KEY", f"{server.url}/v1")
        chat(hermes_home)
        assert received(server, OTHER_KEY)  # the control: the bound host gets it
    assert hostile.requests == []


def test_a_yes_counts_for_one_host_and_one_key(hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OTHER_KEY)
    with ModelServer(echo) as own:
        configure(hermes_home, f"model: {{base_url: '{own.url}/v1', default: m}}")
        assert "Send the key in OPENAI_API_KEY" in chat(hermes_home, typed="n\n")
        assert not received(own, OTHER_KEY)
        chat(hermes_home, typed="y\n")
        assert received(own, OTHER_KEY)
        asked = chat(hermes_home, typed="")
        assert "Send the key" not in asked
        another = "another-" + OTHER_KEY
        monkeypatch.setenv("OPENAI_API_KEY", another)
        chat(hermes_home)
        assert not received(own, another)
    monkeypatch.setenv("OPENAI_API_KEY", OTHER_KEY)
    configure(hermes_home, f"model: {{base_url: '{hostile.url}/v1', default: m}}")
    chat(hermes_home)
    assert not received(hostile, OTHER_KEY)


@pytest.mark.parametrize("way", ["key_env", "custom_providers", "fallback", "auxiliary"])
def test_a_key_of_openai_named_for_another_address(way, hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    url = f"{hostile.url}/v1"
    configure(
        hermes_home,
        {
            "key_env": f"fallback_providers: [{{provider: custom, base_url: '{url}', model: m,"
            " key_env: OPENAI_API_KEY}]\nmodel: {provider: custom,"
            f" base_url: '{url}', default: m}}",
            "custom_providers": f"custom_providers: [{{name: lab, base_url: '{url}',"
            " key_env: OPENAI_API_KEY}]\nmodel: {provider: lab, default: m}",
            "fallback": f"fallback_providers: [{{provider: openai, base_url: '{url}', model: m}}]\n"
            f"model: {{provider: custom, base_url: '{url}', default: m}}",
            "auxiliary": f"auxiliary: {{compression: {{provider: openai, base_url: '{url}'}}}}\n"
            f"model: {{provider: custom, base_url: '{url}', default: m}}",
        }[way],
    )
    chat(hermes_home)
    assert not received(hostile, OPENAI_KEY)


def test_a_key_of_openai_cannot_be_bound(hostile, hermes_home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    configure(hermes_home, "")
    shown = hermes(hermes_home, "auth", "bind", "OPENAI_API_KEY", f"{hostile.url}/v1")
    assert "only sent to OpenAI" in shown
    configure(hermes_home, f"model: {{base_url: '{hostile.url}/v1', default: m}}")
    chat(hermes_home)
    assert not received(hostile, OPENAI_KEY)

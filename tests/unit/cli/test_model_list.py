"""`hermes models` against a server on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.cli.main import main
from hermes.core.testing import ModelServer
from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from tests.cases import cases

CASES = cases(__file__)

ROWS = CASES["rows"]


class Endpoint:
    """A server that lists `ROWS`, or fails."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self.status = 200
        self._http = LoopbackServer(self._respond)
        self.url = f"http://127.0.0.1:{self._http.port}/v1"

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        body = json.dumps({"data": ROWS} if self.status == 200 else {"error": "out of order"})
        return Outgoing(self.status, {"Content-Type": "application/json"}, [body.encode()])

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def configure(home: Path, text: str, variables: str = "") -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)
    (home / ".env").write_text(variables)


@pytest.fixture
def mine(endpoint: Endpoint, hermes_home: Path) -> Endpoint:
    """The endpoint as the user's own, in use with the model wise-1."""
    configure(
        hermes_home,
        f"model: {{provider: 'custom:mine', default: maker/wise-1}}\n"
        f"custom_providers: [{{name: mine, base_url: '{endpoint.url}', key_env: MY_KEY}}]\n",
        "MY_KEY=sk-my-secret\n",
    )
    return endpoint


def names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The models of the lines that were shown."""
    lines = capsys.readouterr().out.splitlines()[1:]
    return [line[2:].split()[0] for line in lines]


def test_the_models_of_the_provider_in_use(mine: Endpoint, capsys):
    assert main(["models"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"mine ({mine.url}): 3 models, listed 0s ago"
    assert [line.split() for line in out[1:]] == [
        ["maker/gift-2", "33k", "free", "tools"],
        ["maker/plain-3", "8k", "$0.05", "/", "$0.20"],
        ["*", "maker/wise-1", "1.05m", "$2.00", "/", "$10.00", "images", "tools", "reasoning"],
    ]
    assert mine.requests[0].headers["authorization"] == "Bearer sk-my-secret"


@pytest.mark.parametrize(("arguments", "expected"), CASES["models are filtered"])
def test_models_are_filtered(mine: Endpoint, capsys, arguments, expected):
    assert main(["models", *arguments]) == 0
    assert names(capsys) == expected


def test_nothing_that_fits_is_an_exit_code(mine: Endpoint, capsys):
    assert main(["models", "nonsense"]) == 1
    assert "0 models" in capsys.readouterr().out


def test_long_lists_are_cut_and_say_so(mine: Endpoint, capsys):
    assert main(["models", "--limit", "1"]) == 0
    assert "… and 2 more models; --limit 0 shows all" in capsys.readouterr().out


def test_the_list_is_asked_for_once_a_day(mine: Endpoint, capsys):
    main(["models"])
    main(["models"])
    assert len(mine.requests) == 1
    main(["models", "--refresh"])
    assert len(mine.requests) == 2


def test_an_endpoint_that_fails_leaves_the_list_of_last_time(mine: Endpoint, capsys):
    main(["models"])
    mine.status = 500
    capsys.readouterr()
    assert main(["models", "--refresh"]) == 0
    shown = capsys.readouterr()
    assert "maker/wise-1" in shown.out
    assert "the list of last time is shown" in shown.err
    assert "sk-my-secret" not in shown.out + shown.err


def test_an_endpoint_that_never_answered_leaves_what_comes_with_hermes(hermes_home: Path, capsys):
    configure(
        hermes_home,
        "model: {provider: custom, default: gpt-6-sol, base_url: 'http://127.0.0.1:9/v1'}\n",
    )
    assert main(["models", "gpt-6"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [["*", "gpt-6-sol"]]
    assert "cannot reach custom" in shown.err and "what comes with Hermes is shown" in shown.err


def test_as_json_each_fact_has_its_source(mine: Endpoint, capsys):
    assert main(["models", "wise", "--json"]) == 0
    (provider,) = json.loads(capsys.readouterr().out)
    assert (provider["provider"], provider["total"]) == ("custom:mine", 1)
    (model,) = provider["models"]
    assert model["in_use"] is True
    assert model["price"]["input"] == 2
    assert model["sources"]["context_length"] == "the list of mine, 0s old"
    assert model["max_output"] is None


def test_configured_model_facts_override_the_listing(mine: Endpoint, hermes_home: Path, capsys):
    text = (hermes_home / "config.yaml").read_text()
    facts = "models: {maker/plain-3: {context_length: 4000, images: true}}"
    configure(hermes_home, text.replace("key_env: MY_KEY", f"key_env: MY_KEY, {facts}"), "MY_KEY=k")
    assert main(["models", "plain"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[1:] == [
        "4k",
        *("$0.05", "/", "$0.20"),
        "images",
    ]


def test_a_provider_without_a_key_names_the_variable(hermes_home: Path, capsys):
    assert main(["models", "groq"]) == 4
    complaint = capsys.readouterr().err
    assert "no key for Groq" in complaint and "GROQ_API_KEY" in complaint


def test_prices_that_come_with_hermes_are_marked(hermes_home: Path, capsys):
    with ModelServer([], models=["deepseek-v4-pro"]) as server:
        configure(
            hermes_home,
            f"model: {{provider: deepseek, base_url: '{server.url}/v1', api_key: my-own-key}}\n",
        )
        assert main(["models"]) == 0
        assert server.requests[0].headers["authorization"] == "Bearer my-own-key"
    assert "~$1.32 / $3.96" in capsys.readouterr().out


def test_all_providers_with_a_key_are_asked(mine: Endpoint, hermes_home: Path, capsys):
    """A bedrock key is set too, and Bedrock has no list to ask for."""
    with (hermes_home / ".env").open("a") as env:
        env.write("AWS_BEARER_TOKEN_BEDROCK=k\n")
    assert main(["models", "--all", "--json"]) == 0
    found = {one["provider"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(found) == {"custom:mine", "bedrock"}
    assert "has no list" in found["bedrock"]["note"]
    assert found["bedrock"]["models"][0]["id"].startswith("openai.gpt-oss")


def test_the_embedded_model_has_a_list_of_its_own(hermes_home: Path, capsys):
    assert main(["models"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("* 0.5b ") and "1.5b" in shown.out
    assert "hermes models PROVIDER" in shown.err
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "0.5b"


@pytest.mark.parametrize(("arguments", "words"), CASES["wrong arguments are refused in one line"])
def test_wrong_arguments_are_refused_in_one_line(capsys, arguments, words):
    assert main(["models", *arguments]) in (2, 3)
    complaint = capsys.readouterr().err.splitlines()
    assert words in complaint[0]
    assert len(complaint) <= 2

"""The model, its endpoint on loopback, its fallbacks and the embedded model."""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest

from hermes.config import edit
from hermes.config.edit import assign
from hermes.core.testing.http_server import LoopbackServer, Outgoing
from hermes.ops.doctor import check
from hermes.providers.local import weights as local_weights
from tests.unit.ops.doctor.run_checks import found, only, run_named, texts

KEY = "sk-my-own-secret-0123456789"


class Endpoint:
    """Lists two models, or answers with the given status."""

    def __init__(self) -> None:
        self.status, self.headers, self.requests = 200, {}, []
        self.key_status = 200
        self._http = LoopbackServer(self._respond)
        self.url = f"http://127.0.0.1:{self._http.port}/v1"

    def _respond(self, request):
        self.requests.append(request)
        if request.path.endswith("/key"):
            return Outgoing(self.key_status, {"Content-Type": "application/json"}, [b"{}"])
        known = {"data": [{"id": "wise-1", "context_length": 100_000}, {"id": "plain-2"}]}
        body = json.dumps(known if self.status == 200 else {"error": {"message": "bad key"}})
        headers = {"Content-Type": "application/json", **self.headers}
        return Outgoing(self.status, headers, [body.encode()])

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def mine(endpoint, home, config):
    """The endpoint as the user's own."""

    def use(model="wise-1", more=""):
        config(
            f"model: {{provider: 'custom:mine', default: {model}}}\n"
            f"custom_providers: [{{name: mine, base_url: '{endpoint.url}', key_env: MY_KEY}}]\n"
            + more
        )
        home.env_file.write_text(f"MY_KEY={KEY}\n")
        return endpoint

    return use


async def test_answering_endpoint_is_ok_and_is_asked_once(home, mine):
    server = mine()
    found = await run_named(home, "model", "endpoint", "context", "fallbacks", "clock")
    assert [each.level for each in found] == ["ok"] * 5
    assert "lists 2 models" in texts(found[1])
    assert len(server.requests) == 1
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_key_that_is_refused_is_a_problem_that_does_not_show_it(home, mine):
    mine().status = 401
    outcome = await only(home, "endpoint")
    assert outcome.level == "problem"
    assert "refuses the key" in texts(outcome)
    assert KEY not in texts(outcome)


async def test_key_is_checked_separately_if_the_list_is_public(home, config, endpoint):
    config(
        f"model: {{provider: openrouter, base_url: '{endpoint.url}', api_key: {KEY},"
        " default: wise-1}\n"
    )
    assert (await only(home, "endpoint")).level == "ok"
    endpoint.key_status = 401
    outcome = await only(home, "endpoint")
    assert outcome.level == "problem"
    assert "refuses the key" in texts(outcome)


async def test_a_server_without_a_list_of_models_is_only_a_warning(home, mine):
    mine().status = 404
    assert "lists no models there (HTTP 404)" in await found(home, "endpoint", "warning")


async def test_a_model_the_endpoint_does_not_list_is_doubted_with_a_guess(home, mine):
    mine("wise-2")
    found = texts(await only(home, "endpoint"))
    assert "does not list wise-2; did you mean wise-1?" in found


async def test_unknown_context_length_is_a_warning_until_it_is_set(home, mine):
    mine("plain-2")
    found = texts(await only(home, "context"))
    assert "is not known" in found
    key = re.search(r"hermes config set '(.+)' TOKENS", found)[1]
    edit.set_value(home, assign(key, "5000").parts, 5000)
    assert "plain-2 has a context of 5,000 tokens" in texts(await only(home, "context"))


async def test_unreachable_endpoint_is_a_problem(home, config):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config(f"model: {{provider: custom, base_url: 'http://127.0.0.1:{port}/v1', default: m}}\n")
    outcome = await only(home, "endpoint")
    assert outcome.level == "problem"
    assert "cannot be reached" in texts(outcome)


async def test_an_endpoint_that_keeps_silent_is_given_up(home, config, monkeypatch):
    monkeypatch.setattr(check, "PROBE_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config(f"model: {{provider: custom, base_url: 'http://127.0.0.1:{port}/v1', default: m}}\n")
        outcome = await only(home, "endpoint")
    assert "did not answer" in texts(outcome)


@pytest.mark.parametrize(("hours", "way"), [(-3, "fast"), (3, "slow")])
async def test_a_wrong_clock_is_noticed_from_the_date_of_the_endpoint(home, mine, hours, way):
    there = datetime.now(UTC) + timedelta(hours=hours)
    mine().headers = {"Date": format_datetime(there, usegmt=True)}
    assert f"{way}, compared with 127.0.0.1" in await found(home, "clock", "problem")


async def test_correct_clock_is_ok_and_a_cached_date_is_ignored(home, mine):
    server = mine()
    server.headers = {"Date": format_datetime(datetime.now(UTC), usegmt=True)}
    assert (await only(home, "clock")).level == "ok"
    old = datetime.now(UTC) - timedelta(days=1)
    server.headers = {"Date": format_datetime(old, usegmt=True), "Age": "86400"}
    assert (await only(home, "clock")).found == ()


async def test_fallbacks_without_a_key_or_with_a_wrong_model_are_warnings(home, mine):
    mine(
        more="fallback_providers:\n"
        "  - {provider: anthropic, model: claude}\n"
        "  - {provider: 'custom:mine', model: wise-1}\n"
        "  - {provider: 'custom:mine', model: wise-9}\n"
    )
    outcome = await only(home, "fallbacks")
    assert [each.level for each in outcome.found] == ["warning", "ok", "warning"]


async def test_without_a_key_the_embedded_model_is_named(home):
    model, embedded = await run_named(home, "model", "embedded")
    assert model.level == "warning"
    assert "no key is set" in texts(model)
    assert "is not downloaded yet" in texts(embedded)


async def test_weights_of_the_wrong_size_or_content_are_a_problem(home, monkeypatch):
    weights = msgspec.structs.replace(local_weights.WEIGHTS[0], size=1_000_000)
    monkeypatch.setattr(local_weights, "WEIGHTS", (weights,))
    home.models.mkdir()
    file = home.models / weights.file
    file.write_bytes(b"GGUF")
    assert "instead of" in texts(await only(home, "embedded"))
    with file.open("r+b") as opened:
        opened.truncate(weights.size)
    assert "its SHA-256 is wrong" in texts(await only(home, "embedded"))
    assert file.exists()


async def test_a_provider_without_its_key_is_a_problem(home, config):
    config("model: {provider: anthropic, default: claude-sonnet}\n")
    assert "no model can answer" in await found(home, "model", "problem")

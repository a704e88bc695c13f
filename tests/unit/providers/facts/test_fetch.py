"""Asking endpoints for their lists: with the right key, to the right host, and no further."""

import msgspec
import pytest

from hermes.core.errors import CredentialRefused, ProviderError, ReplyInvalid, Unreachable
from hermes.core.testing import ModelServer
from hermes.providers.catalog import listing
from hermes.providers.catalog.listing import fetch_models
from hermes.providers.endpoints import Endpoint, find_endpoint
from hermes.providers.target import Credential
from tests.unit.providers.facts import answers
from tests.unit.providers.facts.conftest import answer

KEY = Credential("env:SOME_KEY", "sk-very-secret")
DATE = "2026-11-15"


def at(provider: str, url: str) -> Endpoint:
    """The endpoint, moved to `url`."""
    endpoint = find_endpoint(provider)
    assert endpoint is not None
    return msgspec.structs.replace(endpoint, base_url=url)


async def names(endpoint, client, credential=KEY, base_url="") -> list[str]:
    url = base_url or endpoint.base_url
    return [f.id for f in await fetch_models(endpoint, url, credential, client, date=DATE)]


async def test_the_model_server_lists_its_models(client):
    with ModelServer([], models=["a", "b"]) as server:
        assert await names(at("groq", f"{server.url}/v1"), client) == ["a", "b"]
        assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"


@pytest.mark.parametrize("base", ["/v1", ""])
async def test_anthropic_gets_its_own_headers(client, base):
    with ModelServer([], models=["claude-x"]) as server:
        assert await names(at("anthropic", f"{server.url}{base}"), client) == ["claude-x"]
        request = server.requests[0]
    assert request.path == "/v1/models?limit=1000"
    assert request.headers["x-api-key"] == "sk-very-secret"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in request.headers


async def test_a_login_at_anthropic_is_sent_as_a_bearer(client, server):
    login = Credential("oauth", "tok", kind="oauth")
    await names(at("anthropic", f"{server.url}/v1"), client, login)
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer tok"
    assert headers["anthropic-beta"] == "oauth-2025-04-20"
    assert "x-api-key" not in headers


async def test_all_pages_are_read(client, server):
    def respond(request):
        second = "after_id=m1" in request.path
        row = {"type": "model", "id": "m2" if second else "m1"}
        return answer({"data": [row], "has_more": not second, "last_id": row["id"]})

    server.respond = respond
    assert await names(at("anthropic", f"{server.url}/v1"), client) == ["m1", "m2"]


async def test_an_endpoint_that_always_has_more_comes_to_an_end(client, server):
    count = iter(range(1000))

    def respond(_request):
        last = f"m{next(count)}"
        return answer({"data": [{"id": last}], "has_more": True, "last_id": last})

    server.respond = respond
    assert len(await names(at("anthropic", f"{server.url}/v1"), client)) == listing.MAX_PAGES
    server.respond = lambda _request: answer({"data": [], "has_more": True, "last_id": "same"})
    server.requests.clear()
    await names(at("anthropic", f"{server.url}/v1"), client)
    assert len(server.requests) == 2


async def test_a_path_may_lead_out_of_the_address(client, server):
    server.respond = lambda _request: answer(answers.LM_STUDIO)
    found = await names(at("lmstudio", f"{server.url}/v1"), client, None)
    assert found == ["qwen3.5-9b", "nomic-embed-text"]
    assert server.requests[0].path == "/api/v0/models"


async def test_a_providers_key_is_not_sent_to_a_stranger(client, server):
    """The lists of some endpoints are public, so the question is asked without the key."""
    server.respond = lambda _request: answer(answers.OPENROUTER)
    openrouter = find_endpoint("openrouter")
    assert await names(openrouter, client, KEY, base_url=f"{server.url}/v1")
    assert "sk-very-secret" not in str(server.requests[0].headers)


async def test_the_users_own_endpoint_gets_its_key(client, server):
    custom = Endpoint(id="custom:mine", label="mine", base_url=f"{server.url}/v1")
    await names(custom, client)
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"


async def test_a_redirect_is_not_followed(client, server):
    server.respond = lambda _request: answer({}, 307, Location=f"{server.url}/elsewhere")
    with pytest.raises(ProviderError):
        await names(at("groq", f"{server.url}/v1"), client)
    assert len(server.requests) == 1


async def test_a_wrong_key_is_said_without_showing_it(client, server):
    refusal = {"error": {"message": "Incorrect API key provided: sk-very-secret"}}
    server.respond = lambda _request: answer(refusal, 401)
    with pytest.raises(CredentialRefused) as caught:
        await names(at("groq", f"{server.url}/v1"), client)
    assert "sk-very-secret" not in str(caught.value)


async def test_a_page_that_is_no_list_is_said(client, server):
    server.respond = lambda _request: answer(b"<html>welcome</html>")
    with pytest.raises(ReplyInvalid, match="no list of models"):
        await names(at("groq", f"{server.url}/v1"), client)


async def test_an_answer_without_end_is_given_up(client, server, monkeypatch):
    monkeypatch.setattr(listing, "MAX_RESPONSE_BYTES", 1000)
    server.respond = lambda _request: answer(b"x" * 5000)
    with pytest.raises(ReplyInvalid, match="is too long"):
        await names(at("groq", f"{server.url}/v1"), client)


async def test_an_endpoint_that_is_not_there_is_said(client, server):
    url = server.url
    server.close()
    with pytest.raises(Unreachable, match=url):
        await names(at("vllm", f"{url}/v1"), client, None)


async def test_ollama_tells_more_of_each_model(client, server):
    def respond(request):
        if request.path == "/api/ps":
            return answer({"models": [{"model": "loaded:8b", "context_length": 8192}]})
        if request.path == "/api/show":
            window = {"qwen3.context_length": 40960, "general.parameter_count": 8}
            given = "num_ctx    16384\nstop x" if request.body["model"] == "set:8b" else ""
            return answer(
                {
                    "capabilities": ["completion", "tools", "vision", "thinking"],
                    "model_info": window,
                    "parameters": given,
                }
            )
        return answer({"data": [{"id": name} for name in ("loaded:8b", "set:8b", "plain:8b")]})

    server.respond = respond
    endpoint = at("ollama", f"{server.url}/v1")
    found = await fetch_models(endpoint, endpoint.base_url, None, client, date=DATE)
    assert [facts.context_length for facts in found] == [8192, 16_384, 40_960]
    assert all(facts.images and facts.tools and facts.reasoning for facts in found)


async def test_a_server_that_only_resembles_ollama_still_lists_its_models(client, server):
    server.respond = lambda request: (
        answer({"data": [{"id": "m"}]})
        if request.path == "/v1/models"
        else answer({"error": "not found"}, 404)
    )
    assert await names(at("ollama", f"{server.url}/v1"), client, None) == ["m"]


async def test_aws_requests_are_signed(client, server):
    endpoint = msgspec.structs.replace(
        at("bedrock", server.url), models_path="/models", key_hosts=()
    )
    credential = Credential("env:AWS_ACCESS_KEY_ID", "ID:SECRET")
    await fetch_models(endpoint, server.url, credential, client, date=DATE, region="eu-west-1")
    signed = server.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=ID/")
    assert "/eu-west-1/bedrock/" in signed

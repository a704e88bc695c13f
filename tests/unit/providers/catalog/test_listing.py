"""Each endpoint writes its list of models in its own way; all are understood."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.errors import CredentialRefused, ProviderError, ReplyInvalid, Unreachable
from hermes.core.model import Price
from hermes.core.testing import ModelServer
from hermes.providers.catalog import listing
from hermes.providers.catalog.catalog import ModelFacts
from hermes.providers.catalog.listing import fetch_models, next_page, parse_models
from hermes.providers.endpoints import Credential, Endpoint, find_endpoint
from tests.cases import table_test
from tests.unit.providers.catalog.conftest import answer

TODAY = "2026-11-15"
ANSWERS = json.loads(Path(__file__).with_name("responses.json").read_text())
"""Lists of models as each kind of endpoint writes them, cut down to a few rows."""


def parse(document: Any, provider: str = "custom") -> dict[str, ModelFacts]:
    return {facts.id: facts for facts in parse_models(document, provider=provider, date=TODAY)}


def known(facts: ModelFacts) -> dict[str, Any]:
    """The fields a list says something of."""
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return {name: value for name, value in fields.items() if value not in (None, ())}


def test_a_plain_list_gives_names_and_tells_other_models_apart():
    found = parse(ANSWERS["OPENAI"], "openai")
    assert known(found["gpt-6-sol"]) == {"id": "gpt-6-sol"}
    assert found["text-embedding-3-small"].language is False


def test_openrouter():
    found = parse(ANSWERS["OPENROUTER"], "openrouter")
    assert known(found["anthropic/claude-sonnet-5.5"]) == {
        "id": "anthropic/claude-sonnet-5.5",
        "label": "Anthropic: Claude Sonnet 5.5",
        "context_length": 1_000_000,
        "max_output": 128_000,
        "price": Price(2, 10, 0.1, 2.5, TODAY),
        "images": True,
        "tools": True,
        "reasoning": True,
        "language": True,
    }
    router = found["openrouter/auto"]
    assert (router.price, router.tools, router.images) == (None, False, False)
    assert found["black-forest-labs/flux.2"].language is False
    assert found["black-forest-labs/flux.2"].deprecated


def test_vercel_lists_only_language_models_that_use_tools():
    found = parse(ANSWERS["VERCEL"], "ai-gateway")
    assert list(found) == ["openai/gpt-6-luna"]
    luna = found["openai/gpt-6-luna"]
    assert (luna.context_length, luna.max_output) == (1_050_000, 128_000)
    assert (luna.images, luna.tools, luna.reasoning) == (True, True, True)
    assert luna.price == Price(0.1, 0.5, 0.01, 0.125, TODAY)


def test_anthropic():
    found = parse(ANSWERS["ANTHROPIC"], "anthropic")
    opus = found["claude-opus-5-5"]
    assert (opus.label, opus.context_length, opus.max_output) == (
        "Claude Opus 5.5",
        1_000_000,
        128_000,
    )
    assert (opus.images, opus.reasoning, opus.language) == (True, True, None)
    assert known(found["claude-haiku-4-5-20251001"]).keys() == {"id", "label"}


def test_gemini_names_lose_their_prefix():
    found = parse(ANSWERS["GEMINI"], "gemini")
    assert list(found) == ["gemini-3.8-flash", "gemini-embedding-2"]
    assert found["gemini-embedding-2"].language is False


def test_mistral_aliases_and_abilities():
    found = parse(ANSWERS["MISTRAL"], "mistral")
    large = found["mistral-large-2512"]
    assert large.matches("mistral-large-latest")
    assert (large.context_length, large.images, large.tools) == (262_144, True, True)
    assert (large.reasoning, large.language, large.deprecated) == (False, True, None)
    assert (found["mistral-embed"].language, found["mistral-embed"].deprecated) == (False, True)


def test_groq_leaves_out_what_it_no_longer_serves():
    found = parse(ANSWERS["GROQ"], "groq")
    assert list(found) == ["openai/gpt-oss-120b"]
    oss = found["openai/gpt-oss-120b"]
    assert (oss.context_length, oss.max_output) == (131_072, 65_536)


def test_xai_prices_are_in_cents():
    grok = parse(ANSWERS["XAI"], "xai")["grok-4.7"]
    assert grok.price == Price(2, 6, 0.5, 2, TODAY)
    assert (grok.images, grok.matches("grok-latest")) == (True, True)


def test_of_several_hosts_the_dearest_price_and_the_widest_window_count():
    glm = parse(ANSWERS["HUGGING_FACE"], "huggingface")["zai-org/GLM-5.3"]
    assert glm.price == Price(1.4, 4.4, 1.4, 1.4, TODAY)
    assert (glm.context_length, glm.tools, glm.images) == (204_800, True, False)


def test_copilot_leaves_out_what_cannot_be_picked():
    found = parse(ANSWERS["COPILOT"], "copilot")
    assert list(found) == ["claude-sonnet-5"]
    sonnet = found["claude-sonnet-5"]
    assert (sonnet.context_length, sonnet.max_output) == (200_000, 64_000)
    assert (sonnet.images, sonnet.tools, sonnet.language) == (True, True, True)
    assert sonnet.price is None


@pytest.mark.parametrize(
    ("document", "model", "context"),
    [
        (ANSWERS["VLLM"], "Qwen/Qwen3-32B", 40_960),
        (ANSWERS["LLAMA_CPP"], "qwen.gguf", 32_768),
        (ANSWERS["LM_STUDIO"], "qwen3.5-9b", 16_384),
        (ANSWERS["OLLAMA_TAGS"], "qwen3:14b", None),
    ],
    ids=["vllm", "llama.cpp", "lm studio", "ollama"],
)
def test_servers_on_this_machine_tell_their_real_window(document, model, context):
    assert parse(document)[model].context_length == context


def test_lm_studio_tells_what_a_model_is():
    found = parse(ANSWERS["LM_STUDIO"], "lmstudio")
    assert (found["qwen3.5-9b"].images, found["qwen3.5-9b"].tools) == (True, True)
    assert found["nomic-embed-text"].language is False


def test_a_list_without_a_wrapping_and_prices_for_a_million_tokens():
    found = parse(ANSWERS["TOGETHER"])
    deepseek = found["deepseek-ai/DeepSeek-V4-Pro"]
    assert deepseek.price == Price(1.4, 4.2, 0.14, 1.4, TODAY)
    assert (deepseek.language, deepseek.label) == (True, "DeepSeek V4 Pro")
    assert found["togethercomputer/m2-bert"].language is False


def test_moonshot():
    kimi = parse(ANSWERS["MOONSHOT"], "kimi-coding")["kimi-k3"]
    assert (kimi.context_length, kimi.images, kimi.reasoning) == (1_048_576, True, True)


@table_test
def test_document_without_a_list_has_no_models(document):
    assert parse(document) == {}


@table_test
def test_values_of_an_unexpected_kind_are_not_known(row):
    facts = parse({"data": [{"id": "m", **row}]})["m"]
    assert (facts.context_length, facts.price, facts.aliases) == (None, None, ())


def test_a_model_listed_twice_is_one():
    assert len(parse({"data": [{"id": "m", "context_length": 5}, {"id": "m"}]})) == 1


def test_there_is_a_next_page_only_when_the_answer_says_so():
    assert next_page({"has_more": True, "last_id": "m9"}) == "m9"
    assert next_page({"has_more": True}) == ""
    assert next_page(ANSWERS["ANTHROPIC"]) == ""
    assert next_page([]) == ""


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
    server.respond = lambda _request: answer(ANSWERS["LM_STUDIO"])
    found = await names(at("lmstudio", f"{server.url}/v1"), client, None)
    assert found == ["qwen3.5-9b", "nomic-embed-text"]
    assert server.requests[0].path == "/api/v0/models"


async def test_key_is_not_sent_to_another_host(client, server):
    """The lists of some endpoints are public, so the question is asked without the key."""
    server.respond = lambda _request: answer(ANSWERS["OPENROUTER"])
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


async def test_wrong_key_is_reported_without_showing_it(client, server):
    refusal = {"error": {"message": "Incorrect API key provided: sk-very-secret"}}
    server.respond = lambda _request: answer(refusal, 401)
    with pytest.raises(CredentialRefused) as caught:
        await names(at("groq", f"{server.url}/v1"), client)
    assert "sk-very-secret" not in str(caught.value)


async def test_page_that_is_not_a_list_is_reported(client, server):
    server.respond = lambda _request: answer(b"<html>welcome</html>")
    with pytest.raises(ReplyInvalid, match="not a list of models"):
        await names(at("groq", f"{server.url}/v1"), client)


async def test_an_answer_without_end_is_given_up(client, server, monkeypatch):
    monkeypatch.setattr(listing, "MAX_RESPONSE_BYTES", 1000)
    server.respond = lambda _request: answer(b"x" * 5000)
    with pytest.raises(ReplyInvalid, match="is too long"):
        await names(at("groq", f"{server.url}/v1"), client)


async def test_unreachable_endpoint_is_reported(client, server):
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

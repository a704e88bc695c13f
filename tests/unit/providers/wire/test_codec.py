"""A conversation that grows is encoded piece by piece, and one that changed is encoded anew."""

from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core import errors
from hermes.core.messages import User
from hermes.core.testing import ModelServer, Redirect, Refuse
from hermes.providers.aws import sign_request
from hermes.providers.endpoints import Credential
from hermes.providers.wire.codec import IncrementalEncoder, ThinkTagSplitter, effort_fields
from hermes.providers.wire.model import WireModel, dialect_for
from tests.cases import cases, table_test
from tests.unit.providers.wire.calling import MODES, ask, read, target, wire


class Form:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, message: Any) -> Any:
        self.asked.append(message.text)
        return message.text


def said(growing: IncrementalEncoder, messages: tuple[User, ...]) -> list[str]:
    return [bytes(raw).decode().strip('"') for raw in growing.encode(messages)]


def test_only_what_is_new_is_encoded():
    form = Form()
    growing, a, b, c = IncrementalEncoder(form), User.say("a"), User.say("b"), User.say("c")
    assert said(growing, (a, b)) == ["a", "b"]
    assert said(growing, (a, b, c)) == ["a", "b", "c"]
    assert form.asked == ["a", "b", "c"]


def test_a_message_in_the_middle_that_changed_is_seen():
    growing, a, b, c = IncrementalEncoder(Form()), User.say("a"), User.say("b"), User.say("c")
    said(growing, (a, b, c))
    assert said(growing, (a, User.say("B"), c)) == ["a", "B", "c"]


def test_a_shorter_conversation_is_another_one():
    growing, a, b = IncrementalEncoder(Form()), User.say("a"), User.say("b")
    said(growing, (a, b))
    assert said(growing, (a,)) == ["a"]
    assert said(growing, (a, b)) == ["a", "b"]


def test_returned_list_is_a_copy():
    growing, a = IncrementalEncoder(Form()), User.say("a")
    growing.encode((a,)).clear()
    assert said(growing, (a,)) == ["a"]


@pytest.mark.parametrize(("text", "said", "thought"), cases(__file__)["texts with tags"])
@given(data=st.data())
def test_tags_are_found_however_the_text_is_torn(data, text, said, thought):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    tags, shown = ThinkTagSplitter(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        shown += tags.feed(text[start:end])[0]
    shown += tags.end()
    assert shown == "".join(tags.visible) == said
    assert tags.thinking == thought


def test_thinking_streams_while_it_comes():
    tags = ThinkTagSplitter()
    pieces = [tags.feed(piece) for piece in ("<th", "ink>fir", "st</", "think>", "\n\nthen")]
    assert pieces == [("", ""), ("", "fir"), ("", "st"), ("", ""), ("then", "")]


@table_test
def test_effort_is_encoded_in_the_form_of_the_endpoint(form, effort, fields):
    assert effort_fields(form, effort) == fields


def test_adaptive_thinking_gets_the_effort():
    fields = effort_fields("adaptive", "minimal")
    assert fields["thinking"]["type"] == "adaptive"
    assert fields["output_config"] == {"effort": "low"}


@table_test
def test_each_api_has_its_address(mode, base_url, url):
    assert dialect_for(target(mode)).url(base_url) == url


@table_test
def test_invalid_replies_are_classified(mode, events, kind):
    with pytest.raises(errors.ProviderError) as caught:
        read(mode, *events)
    assert (type(caught.value).__name__, caught.value.provider) == (kind, "acme")


TOKEN = Credential("oauth:1", "token", kind="oauth")


@pytest.mark.parametrize(
    ("mode", "auth", "credential", "sent"),
    [
        ("chat_completions", "bearer", Credential("a", " k \n"), {"authorization": "Bearer k"}),
        ("anthropic_messages", "x-api-key", Credential("a", "k"), {"x-api-key": "k"}),
        ("anthropic_messages", "bearer", Credential("a", "k"), {"authorization": "Bearer k"}),
        (
            "anthropic_messages",
            "x-api-key",
            TOKEN,
            {"authorization": "Bearer token", "anthropic-beta": "oauth-2025-04-20,more"},
        ),
        ("codex_responses", "bearer", TOKEN, {"authorization": "Bearer token"}),
        ("chat_completions", "bearer", Credential("a", ""), {}),
        ("chat_completions", "bearer", None, {}),
    ],
)
async def test_the_key_is_sent_as_the_endpoint_wants_it(client, mode, auth, credential, sent):
    beta = {"Anthropic-Beta": "more"} if "anthropic-beta" in sent else {}
    with ModelServer(["ok"]) as server:
        credentials = (credential,) if credential else ()
        await ask(wire(server, client, mode, auth=auth, credentials=credentials, headers=beta))
        headers = server.requests[0].headers
    names = ("authorization", "x-api-key", "anthropic-beta")
    assert {name: headers[name] for name in names if name in headers} == sent
    assert headers.get("anthropic-version") == ("2023-06-01" if "anthropic" in mode else None)


async def test_headers_of_the_target_and_of_the_credential_are_sent(client):
    own = Credential("a", "k", headers={"ChatGPT-Account-Id": "acct"})
    with ModelServer(["ok"]) as server:
        model = wire(
            server, client, "codex_responses", credentials=(own,), headers={"X-Title": "Hermes"}
        )
        await ask(model)
        headers = server.requests[0].headers
    assert (headers["chatgpt-account-id"], headers["x-title"]) == ("acct", "Hermes")
    assert headers["accept"] == "text/event-stream"


async def test_a_given_credential_and_its_address_go_before_those_of_the_target(client):
    with ModelServer(["ok"]) as server:
        other = Credential("b", "other-key", base_url=f"{server.url}/v1")
        await ask(WireModel(target(base_url="http://127.0.0.1:9"), client, other))
        assert server.requests[0].headers["authorization"] == "Bearer other-key"


async def test_a_request_to_aws_is_signed_as_it_is_sent(client):
    account = Credential("env:AWS_ACCESS_KEY_ID", "AKID:SECRET")
    fields = {"auth": "aws", "region": "eu-west-1", "credentials": (account,)}
    with ModelServer(["ok"]) as server:
        await ask(wire(server, client, "anthropic_messages", **fields))
        (request,) = server.requests
        url = f"{server.url}/v1/messages"
    headers = request.headers
    date = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    again = sign_request(
        "POST",
        url,
        {"content-type": headers["content-type"]},
        request.raw,
        region="eu-west-1",
        credential=account,
        now=date,
    )
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert headers["authorization"] == again["authorization"]
    assert headers["anthropic-version"] == "2023-06-01"


async def test_connection_close_is_sent_to_endpoints_that_drop_connections(client):
    with ModelServer(["a", "b"]) as server:
        model = wire(server, client, "chat_completions", keep_alive=False)
        await ask(model)
        await ask(model)
        assert server.requests[0].headers["connection"] == "close"
        assert server.connections == 2


@pytest.mark.parametrize("secret", ["sk-\u2022\u2022", "sk-a\nb", "sk-\x00"])
async def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(client, secret):
    broken = target(credentials=(Credential("env:ACME_API_KEY", secret),))
    with pytest.raises(errors.CredentialRefused) as caught:
        await ask(WireModel(broken, client))
    assert secret not in str(caught.value)
    assert "env:ACME_API_KEY" in caught.value.hint


async def test_a_key_the_endpoint_repeats_is_not_shown(client):
    echoing = httpx2.MockTransport(
        lambda request: httpx2.Response(
            401, json={"error": {"message": f"bad: {request.headers['authorization']}"}}
        )
    )
    async with httpx2.AsyncClient(transport=echoing) as client:
        model = WireModel(target(), client)
        with pytest.raises(errors.CredentialRefused) as caught:
            await ask(model)
    assert "secret-key" not in str(caught.value) + caught.value.body + repr(model)


@pytest.mark.parametrize("mode", MODES)
async def test_a_redirect_is_not_followed(client, mode):
    with ModelServer(["never"]) as other, ModelServer([Redirect(f"{other.url}/v1")]) as server:
        with pytest.raises(errors.ProviderError):
            await ask(wire(server, client, mode))
        assert other.requests == []
        await _use_up(other)


async def _use_up(server: ModelServer) -> None:
    async with httpx2.AsyncClient() as client:
        await ask(wire(server, client, "chat_completions"))


async def test_an_address_that_is_none_is_a_clear_error(client):
    with pytest.raises(errors.Unreachable, match="an invalid address"):
        await ask(WireModel(target(base_url="http://127.0.0.1:port/v1"), client))


async def test_unreachable_endpoint_is_named(client):
    with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:9"):
        await ask(WireModel(target(base_url="http://127.0.0.1:9/v1"), client))


async def test_a_refusal_is_classified(client):
    with ModelServer([Refuse("rate_limited", retry_after=7)]) as server:
        with pytest.raises(errors.RateLimited) as caught:
            await ask(wire(server, client, "anthropic_messages"))
        assert caught.value.retry_after == 7

"""The Code Assist dialect: what is sent, what is made of what comes, and a real stream of it."""

import json
from collections.abc import Iterator, Sequence

import httpx2
import msgspec
import pytest

from hermes.core import errors
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelRequest, ReasoningDelta, TextDelta, ToolSpec, Usage
from hermes.core.testing.http_server import Action, LoopbackServer, Outgoing, RecordedRequest, Stop
from hermes.providers.endpoints import Credential
from hermes.providers.policy.repair import RequestRepairModel
from hermes.providers.wire.code_assist import SKIP_SIGNATURE_CHECK, CodeAssistDialect, gemini_schema
from hermes.providers.wire.model import WireModel
from tests.cases import table_test
from tests.unit.providers.wire.calling import ASK, ask, body_of, load, read, read_whole, target

MODE = "code_assist"
HI = User.say("hi")
OLD = {"model": "gemini-2.5-flash"}
NEW = {"model": "gemini-3.8-flash"}
GREETING = "Grüße aus der Leitung, 你好 🎉!"
SIGNED = {"google": {"thought_signature": "c2ln"}}


def event(*parts, finish=None, **more):
    candidate = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    if finish:
        candidate["finishReason"] = finish
    return {"response": {"candidates": [candidate], **more}, "traceId": "t"}


def call(name, args=None, signature=None, **more):
    part = {"functionCall": {"name": name, "args": args or {}, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


def answered(name, **response):
    return {"functionResponse": {"id": name, "name": "read", "response": response}}


def contents_of(*messages, **fields):
    request = body_of(MODE, ModelRequest(messages), **(fields or OLD))["request"]
    return request["contents"]


# What is sent.


def test_a_request_is_lean():
    assert body_of(MODE, ASK) == {
        "model": "m",
        "request": {
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
            "systemInstruction": {"role": "user", "parts": [{"text": "be brief"}]},
        },
    }


def test_the_project_moves_from_the_address_into_the_body():
    spoken = CodeAssistDialect(target(MODE))
    url = spoken.url("https://a.example/v1internal/?project=my%20project")
    assert url == "https://a.example/v1internal:streamGenerateContent?alt=sse"
    assert json.loads(spoken.body(ASK, True))["project"] == "my project"
    assert "project" not in json.loads(CodeAssistDialect(target(MODE)).body(ASK, True))


def test_a_request_carries_tools_and_options():
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = (
        ToolSpec("read", "Read.", {**parameters, "$schema": "x"}),
        ToolSpec("now", "Time.", {"type": "object"}),
    )
    request = ModelRequest((HI,), tools, 9, 0.5, "low", {"type": "object", "default": {}})
    body = body_of(MODE, request, **NEW, reasoning="effort")["request"]
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "read", "description": "Read.", "parametersJsonSchema": parameters},
                {"name": "now", "description": "Time."},
            ]
        }
    ]
    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
    }


def test_an_older_model_is_not_given_tools_and_a_form_at_once():
    tools = (ToolSpec("now", "Time.", {"type": "object"}),)
    request = ModelRequest((HI,), tools, reply_schema={"type": "object"})
    assert "generationConfig" not in body_of(MODE, request, **OLD)["request"]
    alone = msgspec.structs.replace(request, tools=())
    assert "generationConfig" in body_of(MODE, alone, **OLD)["request"]


@table_test
def test_effort_in_the_words_of_the_model(model, effort, asked):
    request = ModelRequest((HI,), reasoning_effort=effort)
    body = body_of(MODE, request, model=model, reasoning="effort")["request"]
    assert body["generationConfig"] == {"thinkingConfig": asked}
    assert "generationConfig" not in body_of(MODE, request, model=model)["request"]


def test_a_conversation_with_calls_thoughts_and_results():
    said = Assistant(
        (
            Thinking("hm"),
            Text("let me look"),
            ToolCall("a", "read", '{"path":"x","also":1}', SIGNED),
            ToolCall("b", "read", "not json"),
        )
    )
    results = (ToolResult("a", "read", "text of x"), ToolResult("b", "read", "no such", True))
    assert contents_of(HI, said, *results, User.say("go on"), **NEW) == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {
            "role": "model",
            "parts": [
                {"text": "let me look"},
                call("read", {"also": 1, "path": "x"}, "c2ln", id="a"),
                call("read", {"arguments": "not json"}, id="b"),
            ],
        },
        {
            "role": "user",
            "parts": [answered("a", output="text of x"), answered("b", error="no such")],
        },
        {"role": "user", "parts": [{"text": "go on"}]},
    ]


def test_calls_of_another_model_are_marked_as_such_for_newer_models_only():
    said = Assistant((ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))
    first, second = contents_of(HI, said, **NEW)[1]["parts"]
    assert first["thoughtSignature"] == SKIP_SIGNATURE_CHECK
    assert "thoughtSignature" not in second
    assert "thoughtSignature" not in contents_of(HI, said, **OLD)[1]["parts"][0]


def test_two_messages_of_the_model_become_one_turn():
    said = (Assistant((Text("well"),)), Assistant((ToolCall("a", "f", "{}"),)))
    contents = contents_of(HI, Assistant((Thinking("hm"),)), *said)
    assert [content["role"] for content in contents] == ["user", "model"]
    assert len(contents[1]["parts"]) == 2


def test_empty_messages_are_left_out_and_a_later_system_message_is_the_users():
    assert contents_of(HI, User.say(" "), System("be kind"), Assistant(())) == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": [{"text": "be kind"}]},
    ]


def test_a_result_without_a_name_gets_that_of_its_call():
    said = Assistant((ToolCall("a", "read", "{}"),))
    result = contents_of(HI, said, ToolResult("a", "", "text"))[2]["parts"][0]
    assert result["functionResponse"]["name"] == "read"


@pytest.mark.parametrize("name", ["mcp server/read", "1st", "x" * 70])
def test_a_name_that_is_not_taken_is_changed_everywhere_alike(name):
    said = Assistant((ToolCall("a", name, "{}"),))
    request = ModelRequest((HI, said, ToolResult("a", name, "")), (ToolSpec(name, "", {}),))
    body = body_of(MODE, request, **OLD)["request"]
    sent = {
        body["tools"][0]["functionDeclarations"][0]["name"],
        body["contents"][1]["parts"][0]["functionCall"]["name"],
        body["contents"][2]["parts"][0]["functionResponse"]["name"],
    }
    assert len(sent) == 1
    assert sent != {name}
    assert len(sent.pop()) <= 64


def test_images_are_sent_as_data_or_as_an_address():
    addresses = ("https://x.example/a.png?size=2", "https://x.example/picture")
    images = [Image(url) for url in ("data:image/webp;base64,AAAA", *addresses)]
    assert contents_of(User(tuple(images)))[0]["parts"] == [
        {"inlineData": {"mimeType": "image/webp", "data": "AAAA"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/a.png?size=2"}},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x.example/picture"}},
    ]


def test_the_beginning_of_a_conversation_stays_the_same_bytes():
    history = (System("s"), HI, Assistant((Text("a"), ToolCall("1", "f", '{"b":1,"a":2}'))))
    more = (*history, ToolResult("1", "f", "x"))
    first, longer = (
        CodeAssistDialect(target(MODE)).body(ModelRequest(messages), True)
        for messages in (history, more)
    )
    assert first.endswith(b"]}}")
    assert longer.startswith(first.removesuffix(b"]}}") + b",")


@pytest.mark.parametrize(
    ("given", "taken"),
    load("gemini_schemas.json"),
)
def test_a_schema_keeps_what_gemini_knows(given, taken):
    assert gemini_schema(given) == taken


# What comes.


def test_thoughts_text_and_calls_arrive_in_their_order():
    deltas, reply = read(
        MODE,
        event({"text": "first ", "thought": True}),
        event({"text": "hm", "thought": True}),
        event({"text": "So"}),
        event({"text": " be it"}, call("read", {"path": "x"}, "c2ln", id="call-1")),
        event(call("read", {"path": "ü"})),
        event({"text": "", "thoughtSignature": "end"}, finish="STOP"),
    )
    assert deltas == [
        ReasoningDelta("first "),
        ReasoningDelta("hm"),
        TextDelta("So"),
        TextDelta(" be it"),
    ]
    thinking, text, first, second = reply.message.parts
    assert (thinking, text) == (Thinking("first hm"), Text("So be it"))
    assert first == ToolCall("call-1", "read", '{"path":"x"}', SIGNED)
    assert (second.arguments, second.extra) == ('{"path":"ü"}', None)
    assert reply.message.finish_reason == "tool_calls"


def test_calls_without_an_id_always_get_the_same_ones():
    events = [event(call("now"), call("now"), finish="STOP")]
    first, again = (read(MODE, *events)[1].message.calls for _ in range(2))
    assert first == again
    assert len({made.id for made in first}) == 2
    assert [made.arguments for made in first] == ["{}", "{}"]


def test_a_signature_goes_back_with_its_call():
    reply = read(MODE, event(call("now", None, "c2ln", id="1"), finish="STOP"))[1]
    (part,) = contents_of(HI, reply.message, **NEW)[1]["parts"]
    assert part["thoughtSignature"] == "c2ln"


def test_usage_counts_the_cache_and_the_thoughts():
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 112,
    }
    _, reply = read(
        MODE,
        event({"text": "a"}, usageMetadata={"promptTokenCount": 100}),
        event({"text": "b"}, finish="STOP", usageMetadata=usage),
    )
    assert reply.usage == Usage(input=40, output=12, cache_read=60, reasoning=5)


def test_usage_after_the_end_counts_too():
    late = {"response": {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}}}
    _, reply = read(MODE, event({"text": "a"}, finish="STOP"), late)
    assert reply.usage == Usage(input=3, output=4)


def test_a_reply_in_one_piece():
    reply = read_whole(MODE, event({"text": "hm", "thought": True}, {"text": "hi"}, finish="STOP"))
    assert reply.message == Assistant((Thinking("hm"), Text("hi")))


@pytest.mark.parametrize(
    ("said", "meant"),
    [("MAX_TOKENS", "length"), ("RECITATION", "content_filter"), ("OTHER", "OTHER")],
)
def test_finish_reason_is_normalised(said, meant):
    assert read(MODE, event({"text": "a"}, finish=said))[1].message.finish_reason == meant


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"])
def test_a_reply_that_was_withheld_is_a_refusal(reason):
    with pytest.raises(errors.ContentRefused, match=reason):
        read(MODE, event({"text": "how to"}), event(finish=reason))


def test_a_question_that_was_blocked_is_a_refusal():
    blocked = {"response": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}}
    with pytest.raises(errors.ContentRefused, match="PROHIBITED_CONTENT"):
        read(MODE, blocked)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_call_the_model_could_not_write_is_worth_another_try(reason):
    with pytest.raises(errors.ReplyInvalid, match=reason):
        read(MODE, event(finish=reason))


def test_missing_signature_is_classified():
    with pytest.raises(errors.SignatureRefused):
        read(MODE, event(finish="MISSING_THOUGHT_SIGNATURE"))


# Over HTTP.


class CodeAssist:
    """Answers each request with the next of `answers`."""

    def __init__(self) -> None:
        self.answers: list[Outgoing] = []
        self.requests: list[RecordedRequest] = []
        self._server = LoopbackServer(self._respond)
        self.close = self._server.close
        self.url = f"http://127.0.0.1:{self._server.port}/v1internal"

    def streams(self, *actions: object, split: int = 0) -> None:
        """Events, or what else a server may do."""
        done: Sequence[Action] = [sse(a) if isinstance(a, dict) else a for a in actions]
        kind = {"Content-Type": "text/event-stream"}
        self.answers.append(Outgoing(200, kind, done, chunked=True, split=split))

    def refuses(self, status: int, message: str) -> None:
        body = json.dumps([{"error": {"code": status, "message": message}}]).encode()
        self.answers.append(Outgoing(status, {"Content-Type": "application/json"}, [body]))

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        return self.answers.pop(0)


def sse(data: object) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\r\n\r\n".encode()


@pytest.fixture
def server() -> Iterator[CodeAssist]:
    server = CodeAssist()
    yield server
    server.close()


def model_of(server: CodeAssist, client: httpx2.AsyncClient, **fields) -> WireModel:
    address = f"{server.url}?project=my-project"
    login = Credential("gemini-cli", "token-1", "oauth", base_url=address)
    where = target(MODE, server.url, **{"streaming": "always", **NEW, **fields})
    return WireModel(where, client, login)


@pytest.mark.parametrize("split", [0, 1])
async def test_a_stream_is_read_however_its_bytes_are_torn(client, server, split):
    half = len(GREETING) // 2
    server.streams(
        event({"text": GREETING[:half]}),
        event({"text": GREETING[half:]}, call("now", {"zone": "你好"})),
        event(finish="STOP", usageMetadata={"promptTokenCount": 3}),
        split=split,
    )
    deltas, reply = await ask(model_of(server, client))
    assert deltas == [TextDelta(GREETING[:half]), TextDelta(GREETING[half:])]
    assert reply.message.text == GREETING
    assert reply.message.calls[0].arguments == '{"zone":"你好"}'
    assert reply.usage == Usage(input=3)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1internal:streamGenerateContent?alt=sse")
    assert request.headers["authorization"] == "Bearer token-1"
    assert request.body["project"] == "my-project"
    assert "x-goog-user-project" not in request.headers


async def test_a_reply_wanted_in_one_piece_is_streamed_all_the_same(client, server):
    server.streams(event({"text": "he"}), event({"text": "llo"}, finish="STOP"))
    deltas, reply = await ask(model_of(server, client), msgspec.structs.replace(ASK, stream=False))
    assert (deltas, reply.message.text) == ([], "hello")


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        ([event({"text": "a"}), Stop.CUT], errors.StreamCut),
        ([event({"text": "a"}, finish="STOP"), Stop.CUT], errors.StreamCut),
        ([event({"text": "a"}), b'data: {"response": {"cand'], errors.ReplyInvalid),
        (
            [event({"text": "a"}), {"error": {"code": 500, "status": "INTERNAL"}}],
            errors.ServerFault,
        ),
    ],
)
async def test_broken_streams_are_classified(client, server, actions, kind):
    server.streams(*actions)
    with pytest.raises(errors.ProviderError) as caught:
        await ask(model_of(server, client))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Request had invalid credentials.", errors.CredentialRefused),
        (429, "Resource has been exhausted", errors.RateLimited),
        (404, "Requested entity was not found.", errors.ModelNotFound),
    ],
)
async def test_refusals_are_classified(client, server, status, message, kind):
    server.refuses(status, message)
    with pytest.raises(kind, match=message):
        await ask(model_of(server, client))


async def test_a_refused_signature_is_dropped_and_the_request_made_again(client, server):
    server.refuses(400, "Corrupted thought signature.")
    server.streams(event({"text": "ok"}, finish="STOP"))
    said = Assistant((ToolCall("a", "now", "{}", SIGNED),))
    request = ModelRequest((HI, said, ToolResult("a", "now", "noon")))
    _, reply = await ask(RequestRepairModel(model_of(server, client)), request)
    sent = [asked.body["request"]["contents"][1]["parts"][0] for asked in server.requests]
    assert [part["thoughtSignature"] for part in sent] == ["c2ln", SKIP_SIGNATURE_CHECK]
    assert reply.message.text == "ok"

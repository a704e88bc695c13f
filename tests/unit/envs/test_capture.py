"""The capture endpoint between real clients and a scripted token server."""

import asyncio
import json
import socket
from typing import Any, get_args

import httpx2
import pytest

from hermes.core.messages import Assistant, Message, System, ToolResult, User
from hermes.core.model import ApiMode, ModelRequest, ToolSpec
from hermes.envs import CaptureServer, TraceRecorder
from hermes.envs import capture as capture_module
from hermes.envs.trace import RecordedCall, Trace
from hermes.providers.endpoints import Credential, ModelProfile, Target
from hermes.providers.wire.model import WireModel
from tests.unit.envs.token_server import (
    END,
    GENERATE,
    SPECIAL,
    TokenServer,
    detokenize,
    render,
    render_names,
    render_roles,
    render_without_text,
    sampled,
    tokenize,
)  # fmt: skip

TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
CALL = 'I add.\n<tool_call>\n{"name": "add", "arguments": {"b":  2, "a": 1}}\n</tool_call>'
START: tuple[Message, ...] = (System("Be brief."), User.say("1 + 2?"))
NEXT = "<|im_end|>\n<|im_start|>assistant\n"
TOKEN_KINDS = ("llama.cpp", "vllm", "sglang")


async def chat(capture: CaptureServer, rollout: str, body: dict[str, Any]) -> dict[str, Any]:
    async with httpx2.AsyncClient() as client:
        response = await client.post(f"{capture.url(rollout)}/chat/completions", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def sample_of(recorder: TraceRecorder) -> Trace:
    return Trace("r", "k", "h", "m", nodes=recorder.nodes, tools=recorder.tools)


def wire_model(capture: CaptureServer, mode: ApiMode, client: Any, *, by_key: bool) -> WireModel:
    root = capture.url("r").removesuffix("/r/v1") + "/v1"
    key = (Credential("given", "r"),) if by_key else ()
    target = Target(
        provider="custom",
        model="lab",
        base_url=root if by_key else capture.url("r"),
        api_mode=mode,
        auth="x-api-key" if mode == "anthropic_messages" else "bearer",
        credentials=key,
        profile=ModelProfile(thinking_field="reasoning_content"),
    )
    return WireModel(target, client)


async def converse(model: WireModel, *, stream: bool) -> list[Assistant]:
    """Ask, return the result of the call, and ask once more."""
    history, replies = START, []
    for follow_up in ("3", ""):
        request = ModelRequest(history, (TOOL,), max_tokens=50, temperature=0.7, stream=stream)
        reply = (await model.call(request, lambda _event: None)).message
        replies.append(reply)
        if follow_up:
            (call,) = reply.calls
            history = (*history, reply, ToolResult(call.id, call.name, follow_up))
    return replies


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("mode", get_args(ApiMode))
@pytest.mark.parametrize("kind", TOKEN_KINDS)
async def test_second_prompt_keeps_the_sampled_ids_and_appends_the_rendered_tail(
    kind, mode, stream
) -> None:
    thought = f"<think>\nEasy.\n</think>\n{CALL}"
    with TokenServer([thought, "It is 3."]) as server:
        async with (
            CaptureServer(server.url, kind, parser="hermes") as capture,
            httpx2.AsyncClient() as client,
        ):
            model = wire_model(capture, mode, client, by_key=stream)
            first, last = await converse(model, stream=stream)
            recorder = capture.take("r")
    assert (first.thinking, first.text.strip(), first.calls[0].name) == ("Easy.", "I add.", "add")
    assert json.loads(first.calls[0].arguments) == {"a": 1, "b": 2}
    assert last.text == "It is 3."

    before, after = server.prompts
    tail = tokenize("\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n")
    assert after == [*before, *sampled(thought), END, *tail]
    (branch,) = sample_of(recorder).branches()
    assert branch.token_exact
    assert list(branch.token_ids) == [*after, *sampled("It is 3."), END]
    ones = [token for token, flag in zip(branch.token_ids, branch.mask, strict=True) if flag]
    assert detokenize(ones) == f"{thought}<|im_end|>It is 3.<|im_end|>"
    assert branch.logprobs[-1] == pytest.approx(-0.09)
    assert [message["role"] for message in branch.messages] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", TOKEN_KINDS)
async def test_sampling_fields_reach_the_server_as_given(kind) -> None:
    given = {"temperature": 0.3, "top_p": 0.9, "seed": 7, "max_completion_tokens": 12}
    with TokenServer(["Yes."]) as server:
        async with CaptureServer(server.url, kind, model="lab") as capture:
            await chat(capture, "r", {"messages": [{"role": "user", "content": "?"}], **given})
    body = next(r.body for r in server.requests if r.path in GENERATE)
    sent = body.get("sampling_params", body)
    limit = sent.get("n_predict") or sent.get("max_tokens") or sent.get("max_new_tokens")
    seed = sent.get("seed") or sent.get("sampling_seed")
    assert (sent["temperature"], sent["top_p"], seed, limit) == (0.3, 0.9, 7, 12)


@pytest.mark.parametrize(
    "field", [{"n": 2}, {"tool_choice": "required"}, {"response_format": {"type": "json_object"}}]
)
async def test_field_whose_meaning_is_lost_is_refused(field) -> None:
    with TokenServer([]) as server:
        async with CaptureServer(server.url, "vllm") as capture, httpx2.AsyncClient() as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "?"}], **field}
            response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
    assert response.status_code == 400
    assert next(iter(field)) in response.json()["error"]["message"]


@pytest.mark.parametrize("kind", TOKEN_KINDS)
async def test_reply_that_was_cut_off_is_continued_without_an_end_token(kind) -> None:
    question = {"role": "user", "content": "Tell."}
    with TokenServer(["Once upon✂", "a time."]) as server:
        async with CaptureServer(server.url, kind) as capture:
            reply = await chat(capture, "r", {"model": "m", "messages": [question]})
            message = reply["choices"][0]["message"]
            more = [question, message, {"role": "user", "content": "Go on."}]
            await chat(capture, "r", {"model": "m", "messages": more})
    assert reply["choices"][0]["finish_reason"] == "length"
    before, after = server.prompts
    tail = "<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"
    assert after == [*before, *sampled("Once upon"), *tokenize(tail)]


async def test_changed_history_or_tools_start_a_new_branch() -> None:
    first = {"role": "user", "content": "One."}
    with TokenServer(["A.", "B.", "C."]) as server:
        async with CaptureServer(server.url, "llama.cpp") as capture:
            reply = (await chat(capture, "r", {"messages": [first]}))["choices"][0]["message"]
            changed = [first, {**reply, "content": "Z."}, {"role": "user", "content": "Two."}]
            await chat(capture, "r", {"messages": changed})
            tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
            kept = [first, reply, {"role": "user", "content": "Two."}]
            await chat(capture, "r", {"messages": kept, "tools": tools})
            trace = sample_of(capture.take("r"))
    assert server.prompts[1] == tokenize(render(changed, []))
    assert server.prompts[2] == tokenize(render(kept, tools))
    branches = trace.branches()
    assert [branch.messages[-1]["content"] for branch in branches] == ["A.", "B.", "C."]
    assert [sum(branch.mask) for branch in branches] == [3, 3, 3]


async def test_rollouts_are_recorded_apart() -> None:
    question = {"messages": [{"role": "user", "content": "?"}]}
    with TokenServer(["A."] * 20) as server:
        async with CaptureServer(server.url, "vllm") as capture:
            await asyncio.gather(*(chat(capture, f"r{number}", question) for number in range(20)))
            sizes = {len(capture.take(f"r{number}").nodes) for number in range(20)}
            assert capture.take("r1").nodes == []
    assert sizes == {2}


@pytest.mark.parametrize("ids", [True, False])
async def test_chat_server_is_token_exact_only_if_it_returns_ids(ids) -> None:
    with TokenServer([CALL], ids=ids) as server:
        async with CaptureServer(server.url, "chat", parser="hermes") as capture:
            tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
            body = {"messages": [{"role": "user", "content": "?"}], "tools": [tool]}
            reply = await chat(capture, "r", body)
            trace = sample_of(capture.take("r"))
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "add"
    (branch,) = trace.branches()
    assert (trace.token_exact, branch.token_exact, bool(branch.token_ids)) == (ids, ids, ids)


def test_history_that_a_server_tokenized_differently_is_a_branch_of_its_own() -> None:
    recorder, question = TraceRecorder(), {"role": "user", "content": "?"}
    reply, more = {"role": "assistant", "content": "A"}, {"role": "user", "content": "!"}
    recorder.add(
        RecordedCall(
            messages=[question], reply=reply, prompt_ids=[1], completion_ids=[2], logprobs=[-1.0]
        )
    )
    recorder.add(
        RecordedCall(
            messages=[question, reply, more],
            reply={"role": "assistant", "content": "B"},
            prompt_ids=[1, 77, 3],
            completion_ids=[4],
            logprobs=[-1.0],
        )
    )
    assert [branch.token_ids for branch in sample_of(recorder).branches()] == [
        (1, 2),
        (1, 77, 3, 4),
    ]


@pytest.mark.parametrize(("path", "status"), [("/chat/completions", 503), ("/messages", 503)])
@pytest.mark.parametrize("stream", [False, True])
async def test_refusal_of_the_model_server_is_passed_on_and_not_recorded(
    path, status, stream
) -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "?"}]}
    with TokenServer([], status=503) as server:
        async with CaptureServer(server.url, "vllm") as capture, httpx2.AsyncClient() as client:
            response = await client.post(
                f"{capture.url('r')}{path}", json={**body, "stream": stream}
            )
            assert capture.take("r").nodes == []
    assert response.status_code == status
    assert "full" in response.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"messages": 3}', b'{"model": "m"}'])
async def test_invalid_request_is_answered_with_400(content) -> None:
    async with (
        CaptureServer("http://127.0.0.1:9", "vllm") as capture,
        httpx2.AsyncClient() as client,
    ):
        response = await client.post(f"{capture.url('r')}/chat/completions", content=content)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


async def test_unreachable_model_server_is_answered_with_502() -> None:
    async with (
        CaptureServer("http://127.0.0.1:9", "vllm") as capture,
        httpx2.AsyncClient() as client,
    ):
        body = {"messages": [{"role": "user", "content": "?"}]}
        response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
    assert response.status_code == 502


async def test_client_that_leaves_ends_the_call_and_nothing_is_recorded() -> None:
    body = {"messages": [{"role": "user", "content": "?"}]}
    with TokenServer(["A.", "B."], delay=60.0) as server:
        async with CaptureServer(server.url, "vllm") as capture, httpx2.AsyncClient() as client:
            call = client.post(f"{capture.url('r')}/chat/completions", json=body)
            leaving = asyncio.ensure_future(call)
            while not server.prompts:
                await asyncio.sleep(0.01)
            leaving.cancel()
            while not server.hangups:
                await asyncio.sleep(0.01)
            assert capture.take("r").nodes == []


@pytest.mark.parametrize("status", [200, 503])
async def test_slow_reply_keeps_the_stream_open(monkeypatch, status) -> None:
    monkeypatch.setattr(capture_module, "KEEP_ALIVE_SECONDS", 0.02)
    body = {"messages": [{"role": "user", "content": "?"}], "stream": True}
    with TokenServer(["Yes."], delay=0.3, status=status) as server:
        async with CaptureServer(server.url, "vllm") as capture, httpx2.AsyncClient() as client:
            response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
    assert response.status_code == 200, "it was sent before the reply was known"
    comments, _, events = response.text.rpartition(": waiting\n\n")
    assert comments or events
    assert ("the server is full" in events) == (status == 503)
    assert events.endswith("data: [DONE]\n\n") == (status == 200)


@pytest.mark.parametrize("reply", [{}, {"tokens": "no"}, {"choices": []}])
async def test_reply_without_tokens_is_an_error_of_the_model_server(monkeypatch, reply) -> None:
    monkeypatch.setattr(TokenServer, "_inference_v1_generate", lambda _self, _body: reply)
    with TokenServer([]) as server:
        async with CaptureServer(server.url, "vllm") as capture, httpx2.AsyncClient() as client:
            body = {"messages": [{"role": "user", "content": "?"}]}
            response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
    assert response.status_code == 502
    assert "cannot be used" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("template", "end", "tail"),
    [
        (
            render_without_text,
            "<|im_end|>",
            "\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            render_names,
            "<|im_end|>",
            "\n<|im_start|>tool\nadd: 3<|im_end|>\n<|im_start|>assistant\n",
        ),
        (render_roles, "<|observation|>", "\n3<|assistant|>\n"),
        (render_roles, "<|user|>", None),  # the model ended its reply with the wrong mark
        (render, "<|eom_id|>", None),  # the template writes another mark
    ],
)
async def test_tail_follows_the_end_of_the_reply_in_any_template(template, end, tail) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    question = {"role": "user", "content": "1 + 2?"}
    with TokenServer([CALL, "It is 3."], template=template, end=end) as server:
        async with CaptureServer(server.url, "llama.cpp") as capture:
            body = {"messages": [question], "tools": [tool]}
            reply = (await chat(capture, "r", body))["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "3"}
            more = [question, reply, result, *([question] if end == "<|user|>" else [])]
            await chat(capture, "r", {"messages": more, "tools": [tool]})
            branches = sample_of(capture.take("r")).branches()
    before, after = server.prompts
    if tail is None:  # the history is rendered again, as a branch of its own
        assert after == tokenize(template(more, [tool]))
        assert len(branches) == 2
    else:
        assert after == [*before, *sampled(CALL), SPECIAL[end], *tokenize(tail)]
        assert len(branches) == 1
    assert all(branch.token_exact for branch in branches)


async def test_replies_are_sent_at_once() -> None:
    async with CaptureServer("http://127.0.0.1:9", "vllm") as capture:
        assert capture._http is not None
        listening = capture._http._socket
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), (
            "accepted connections inherit it; without it each reply waits 40 ms"
        )


async def test_server_that_cannot_render_a_chat_names_the_kind_that_works() -> None:
    body = {"messages": [{"role": "user", "content": "?"}]}
    with TokenServer([], renders=False) as server:
        async with CaptureServer(server.url, "sglang") as capture, httpx2.AsyncClient() as client:
            response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
    assert response.status_code == 400
    assert "server kind chat" in response.json()["error"]["message"]


async def test_reply_that_sglang_aborts_is_an_error_and_not_recorded(monkeypatch) -> None:
    finish = {"type": "abort", "message": "out of memory"}
    reply = {"text": "", "output_ids": [], "meta_info": {"finish_reason": finish}}
    monkeypatch.setattr(TokenServer, "_generate", lambda _self, _body: reply)
    body = {"messages": [{"role": "user", "content": "?"}]}
    with TokenServer([]) as server:
        async with CaptureServer(server.url, "sglang") as capture, httpx2.AsyncClient() as client:
            response = await client.post(f"{capture.url('r')}/chat/completions", json=body)
            assert capture.take("r").nodes == []
    assert response.status_code == 500
    assert "out of memory" in response.json()["error"]["message"]

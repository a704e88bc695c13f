"""The official clients take the capture endpoint for the real thing."""

import json
from typing import Any

import anthropic
import openai
import pytest

from hermes.envs import CaptureServer, Trace
from tests.unit.envs.token_server import TokenServer

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
REPLIES = [f"<think>\nEasy.\n</think>\n{CALL}", "It is 3."]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


async def with_chat(url: str, *, stream: bool) -> tuple[Any, str]:
    tool: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
    messages: list[Any] = [{"role": "user", "content": "1 + 2?"}]
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:

        async def ask() -> Any:
            fields: dict[str, Any] = {"model": "m", "messages": messages, "tools": [tool]}
            if not stream:
                return (await client.chat.completions.create(**fields)).choices[0].message
            async with client.chat.completions.stream(**fields) as events:
                return (await events.get_final_completion()).choices[0].message

        reply = await ask()
        (call,) = reply.tool_calls
        messages.append(reply.model_dump(exclude_none=True, exclude={"parsed"}))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "3"})
        return json.loads(call.function.arguments), (await ask()).content


async def with_responses(url: str, *, stream: bool) -> tuple[Any, str]:
    tool: Any = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": False}
    items: list[Any] = [{"role": "user", "content": "1 + 2?"}]
    async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:

        async def ask() -> Any:
            fields: dict[str, Any] = {"model": "m", "input": items, "tools": [tool]}
            if not stream:
                return await client.responses.create(**fields)
            async with client.responses.stream(**fields) as events:
                return await events.get_final_response()

        reply = await ask()
        (call,) = [item for item in reply.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True) for item in reply.output]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "3"})
        return json.loads(call.arguments), (await ask()).output_text


async def with_anthropic(url: str, *, stream: bool) -> tuple[Any, str]:
    tool: Any = {"name": "add", "input_schema": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": "1 + 2?"}]
    root = url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=root, api_key="k", max_retries=0) as client:

        async def ask() -> Any:
            fields: dict[str, Any] = {"model": "m", "messages": messages, "tools": [tool]}
            fields["max_tokens"] = 100
            if not stream:
                return await client.messages.create(**fields)
            async with client.messages.stream(**fields) as events:
                return await events.get_final_message()

        reply = await ask()
        (call,) = [block for block in reply.content if block.type == "tool_use"]
        messages.append({"role": "assistant", "content": reply.content})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "3"}
        messages.append({"role": "user", "content": [result]})
        return call.input, (await ask()).content[-1].text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", [with_chat, with_responses, with_anthropic])
async def test_conversation_with_a_call_is_one_exact_branch(client, stream) -> None:
    with TokenServer(REPLIES) as server:
        async with CaptureServer(server.url, "vllm", parser="hermes") as capture:
            arguments, answer = await client(capture.url("r"), stream=stream)
            recorder = capture.take("r")
    assert (arguments, answer) == ({"a": 1, "b": 2}, "It is 3.")
    (branch,) = Trace("r", "k", "h", "m", nodes=recorder.nodes).branches()
    assert branch.token_exact
    assert sum(branch.mask) == sum(map(len, REPLIES)) + 2
    assert list(branch.token_ids[: len(server.prompts[1])]) == server.prompts[1]

"""Requests of the three APIs of the capture endpoint, converted to chat completions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.core.testing.wires import ANTHROPIC, RESPONSES, Wire
from hermes.envs.model_servers import CaptureRequest
from hermes.envs.trace import JsonMessage, JsonTool, content_text


def read_request(wire: Wire, body: Mapping[str, Any]) -> CaptureRequest:
    """Convert a request. Raises `UsageError` if it is invalid."""
    try:
        if wire is ANTHROPIC:
            return _from_anthropic(body)
        return _from_responses(body) if wire is RESPONSES else _from_chat(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"the request is invalid: {type(error).__name__}: {error}") from error


def _from_chat(body: Mapping[str, Any]) -> CaptureRequest:
    own = ("model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    options = {name: value for name, value in body.items() if name not in own}
    messages, tools = list(body["messages"]), list(body.get("tools") or ())
    for tool in tools:
        _ = tool["function"]["name"]
    return CaptureRequest(messages, tools, options, limit, bool(body.get("stream")), dict(body))


_SHARED_OPTIONS = ("temperature", "top_p", "top_k", "chat_template_kwargs")


def _from_anthropic(body: Mapping[str, Any]) -> CaptureRequest:
    options = {name: body[name] for name in _SHARED_OPTIONS if name in body}
    if stops := body.get("stop_sequences"):
        options["stop"] = stops
    messages: list[JsonMessage] = []
    if system := body.get("system"):
        messages.append({"role": "system", "content": content_text(system)})
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            messages.append(_anthropic_reply(blocks))
            continue
        _add_anthropic_turn(messages, blocks)
    tools = [
        _tool(each["name"], each.get("description"), each["input_schema"])
        for each in body.get("tools") or ()
    ]
    stream, limit = bool(body.get("stream")), body.get("max_tokens")
    messages = _move_tool_images(messages)
    return CaptureRequest(messages, tools, options, limit, stream, dict(body))


def _add_anthropic_turn(messages: list[JsonMessage], blocks: Sequence[Mapping[str, Any]]) -> None:
    """Add the results of tools, then what the user says."""
    said: list[dict[str, Any]] = []
    for block in blocks:
        if block["type"] == "tool_result":
            parts = _parts(block.get("content") or "")
            messages.append(
                {"role": "tool", "tool_call_id": block["tool_use_id"], "content": parts}
            )
        else:
            said.append(_part(block))
    if any(part["type"] != "text" for part in said):
        messages.append({"role": "user", "content": said})
    elif said:
        messages.append({"role": "user", "content": "\n".join(part["text"] for part in said)})


def _move_tool_images(messages: Iterable[JsonMessage]) -> list[JsonMessage]:
    """Return the messages with the images of tools in the user message after the results: tool
    messages of chat completions have text only."""
    moved: list[JsonMessage] = []
    images: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            images += [part for part in message["content"] if part["type"] != "text"]
            moved.append({**message, "content": content_text(message["content"])})
            continue
        if images and message["role"] == "user":
            moved.append({**message, "content": [*images, *_parts(message["content"])]})
        else:
            moved += [{"role": "user", "content": images}] if images else []
            moved.append(message)
        images = []
    return [*moved, {"role": "user", "content": images}] if images else moved


def _parts(content: Any) -> list[dict[str, Any]]:
    """Return content of the Anthropic or the responses API as parts of chat completions."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_part(part) for part in content]


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a content block. Raises `UsageError` for what chat completions cannot say, which
    would be lost."""
    kind = block["type"]
    if kind == "image_url":
        return dict(block)
    if kind in ("text", "input_text", "output_text"):
        return {"type": "text", "text": block["text"]}
    url = ""
    if kind == "image":
        source = block["source"]
        url = source.get("url") or ""
        if source["type"] == "base64":
            url = f"data:{source['media_type']};base64,{source['data']}"
    elif kind == "input_image":
        url = block.get("image_url") or ""
    if not url:
        raise UsageError(f"content of the type {kind!r} is not supported here")
    detail = {"detail": block["detail"]} if block.get("detail") else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _anthropic_reply(blocks: Sequence[Mapping[str, Any]]) -> JsonMessage:
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    message: JsonMessage = {"role": "assistant", "content": text}
    if thoughts := [block["thinking"] for block in blocks if block["type"] == "thinking"]:
        message["reasoning_content"] = "\n".join(thoughts)
    calls = [
        _call(block["id"], block["name"], msgspec.json.encode(block["input"]).decode())
        for block in blocks
        if block["type"] == "tool_use"
    ]
    return {**message, "tool_calls": calls} if calls else message


def _from_responses(body: Mapping[str, Any]) -> CaptureRequest:
    if body.get("previous_response_id"):
        raise UsageError("previous_response_id is not supported: send the whole input")
    messages: list[JsonMessage] = []
    if instructions := body.get("instructions"):
        messages.append({"role": "system", "content": instructions})
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        _add_item(messages, item)
    tools = [
        _tool(each["name"], each.get("description"), each["parameters"])
        for each in body.get("tools") or ()
        if each.get("type") == "function"
    ]
    options = {name: body[name] for name in _SHARED_OPTIONS if name in body}
    stream, limit = bool(body.get("stream")), body.get("max_output_tokens")
    messages = _move_tool_images(messages)
    return CaptureRequest(messages, tools, options, limit, stream, dict(body))


def _add_item(messages: list[JsonMessage], item: Mapping[str, Any]) -> None:
    """Add an input item. Reasoning, text and calls of one reply form one message."""
    kind = item.get("type") or "message"
    if kind == "function_call_output":
        parts = _parts(item["output"])
        messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": parts})
        return
    if kind == "message" and item["role"] != "assistant":
        role = "system" if item["role"] == "developer" else item["role"]
        parts = _parts(item["content"])
        plain = all(part["type"] == "text" for part in parts)
        messages.append({"role": role, "content": content_text(parts) if plain else parts})
        return
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    reply = messages[-1]
    if kind == "message":
        reply["content"] += content_text(item["content"])
    elif kind == "function_call":
        call = _call(item["call_id"], item["name"], item["arguments"])
        reply.setdefault("tool_calls", []).append(call)
    elif kind == "reasoning":
        thought = content_text(item.get("content")) or content_text(item.get("summary"))
        reply["reasoning_content"] = reply.get("reasoning_content", "") + thought


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _tool(name: str, description: str | None, parameters: Any) -> JsonTool:
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}

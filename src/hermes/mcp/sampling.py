"""Requests of a server to the model, within limits and for a session with a call in progress."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hermes.config.settings import McpSampling
from hermes.core.errors import ProviderError
from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    UserPart,
)
from hermes.core.model import ModelRequest, ToolSpec
from hermes.mcp.caller import CallTicket
from hermes.mcp.errors import USER_REJECTED, ServerRefused
from hermes.util.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from hermes.util.text import clean

# Conversion between the messages of a server and those of Hermes.

MAX_REQUEST_CHARS = 400_000  #: Size limit of one request to the model.


class SamplingBlock(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a message; its type determines which fields are used."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: tuple["SamplingBlock", ...] = ()
    is_error: bool = False


class SamplingMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: SamplingBlock | tuple[SamplingBlock, ...]

    @property
    def blocks(self) -> tuple[SamplingBlock, ...]:
        return self.content if isinstance(self.content, tuple) else (self.content,)


def conversation(said: Sequence[SamplingMessage], system: str) -> tuple[Message, ...]:
    """Return the messages for the model. Raises `ServerRefused` for unsupported content."""
    if not said:
        raise ServerRefused("there is no message", INVALID_PARAMS)
    size = len(msgspec.json.encode(said)) + len(system)
    if size > MAX_REQUEST_CHARS:
        raise ServerRefused(
            f"the messages have {size} characters; {MAX_REQUEST_CHARS} are allowed", INVALID_PARAMS
        )
    found: list[Message] = [System(clean(system))] if system else []
    names = {block.id: block.name for each in said for block in each.blocks if block.id}
    for each in said:
        found += _assistant(each) if each.role == "assistant" else _user(each, names)
    return tuple(found)


def tool_rounds(said: Sequence[SamplingMessage]) -> int:
    """Return the number of tool rounds since the last message of the user."""
    rounds = 0
    for each in reversed(said):
        kinds = {block.type for block in each.blocks}
        if each.role == "assistant":
            rounds += "tool_use" in kinds
        elif "tool_result" not in kinds:
            break
    return rounds


def reply_content(message: Assistant) -> Any:
    """Return one block, or a list of several."""
    blocks: list[dict[str, Any]] = []
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        for call in message.calls
    ]
    if not blocks:
        return {"type": "text", "text": ""}
    return blocks if message.calls else blocks[0]


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _assistant(said: SamplingMessage) -> list[Message]:
    parts: list[AssistantPart] = []
    for block in said.blocks:
        if block.type == "tool_use":
            arguments = msgspec.json.encode(block.input).decode()
            parts.append(ToolCall(block.id, block.name, arguments))
        else:
            parts.append(Text(_text(block)))
    calls = any(isinstance(part, ToolCall) for part in parts)
    return [Assistant(tuple(parts), "tool_calls" if calls else "stop")]


def _user(said: SamplingMessage, names: dict[str, str]) -> list[Message]:
    results: list[Message] = []
    parts: list[UserPart] = []
    for block in said.blocks:
        if block.type == "tool_result":
            text = "\n".join(_text(each) for each in block.content)
            name = names.get(block.tool_use_id, "")
            results.append(ToolResult(block.tool_use_id, name, text, block.is_error))
        elif block.type == "image" and block.data:
            parts.append(Image(f"data:{block.mime_type or 'image/png'};base64,{block.data}"))
        else:
            parts.append(Text(_text(block)))
    return [*results, User(tuple(parts))] if parts else results


def _text(block: SamplingBlock) -> str:
    return clean(block.text) if block.type == "text" else f"[{block.type} left out]"


MINUTE = 60.0
STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}
MAX_TOOLS = 64

log = logging.getLogger(__name__)


class ModelHint(msgspec.Struct, frozen=True):
    name: str = ""


class ModelPreferences(msgspec.Struct, frozen=True):
    hints: tuple[ModelHint, ...] = ()


class SamplingTool(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    inputSchema: dict[str, Any] = {}  # noqa: N815 - the name on the wire


class SamplingToolChoice(msgspec.Struct, frozen=True):
    mode: str = "auto"


class SamplingRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `sampling/createMessage`."""

    messages: tuple[SamplingMessage, ...]
    system_prompt: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    model_preferences: ModelPreferences | None = None
    tools: tuple[SamplingTool, ...] = ()
    tool_choice: SamplingToolChoice | None = None


class Sampling:
    """Answers `sampling/createMessage` of one server, within the limits of its settings."""

    def __init__(self, server: str, settings: McpSampling) -> None:
        self._server, self._settings = server, settings
        self._recent: deque[float] = deque()
        self._level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities declared to the server."""
        if not self._settings.enabled:
            return {}
        return {"sampling": {"tools": {}} if self._settings.max_tool_rounds else {}}

    async def answer(self, params: dict[str, Any], ticket: CallTicket | None) -> Any:
        if not self._settings.enabled:
            raise ServerRefused("sampling is switched off", USER_REJECTED)
        if ticket is None or ticket.caller.sampler is None:
            raise ServerRefused("no session is there to ask a model for", USER_REJECTED)
        request = msgspec.convert(params, SamplingRequest)
        model_request = self._model_request(request)
        self._check_rate()
        log.log(self._level, "%s asks the model (%d messages)", self._server, len(request.messages))
        try:
            with ticket.paused():
                async with asyncio.timeout(self._settings.timeout or None):
                    names = self._model_names(request)
                    reply = await ticket.caller.sampler.ask(model_request, names)
        except TimeoutError:
            raise ServerRefused("the model did not answer in time", INTERNAL_ERROR) from None
        except ProviderError as error:
            raise ServerRefused(f"the model could not be asked: {error}", INTERNAL_ERROR) from error
        reason = reply.message.finish_reason
        return {
            "role": "assistant",
            "content": reply_content(reply.message),
            "model": reply.model,
            "stopReason": STOP_REASONS.get(reason, reason),
        }

    def _model_request(self, request: SamplingRequest) -> ModelRequest:
        cap = self._settings.max_tokens_cap
        asked = request.max_tokens if request.max_tokens and request.max_tokens > 0 else cap
        return ModelRequest(
            conversation(request.messages, request.system_prompt or ""),
            self._tools(request),
            max_tokens=min(asked, cap),
            temperature=request.temperature,
            stream=False,
        )

    def _tools(self, request: SamplingRequest) -> tuple[ToolSpec, ...]:
        """Return the server's tools, which it runs itself; none after its last round."""
        unwanted = request.tool_choice is not None and request.tool_choice.mode == "none"
        if unwanted or tool_rounds(request.messages) >= self._settings.max_tool_rounds:
            return ()
        empty = {"type": "object", "properties": {}}
        return tuple(
            ToolSpec(tool.name, tool.description, tool.inputSchema or empty)
            for tool in request.tools[:MAX_TOOLS]
        )

    def _model_names(self, request: SamplingRequest) -> tuple[str, ...]:
        """Return the configured model or, without one, the allowed models the server prefers."""
        if self._settings.model:
            return (self._settings.model,)
        hints = request.model_preferences.hints if request.model_preferences else ()
        names = [hint.name.strip() for hint in hints if hint.name.strip()]
        if not self._settings.allowed_models:
            return tuple(names)
        found = [
            model
            for name in names
            for model in self._settings.allowed_models
            if name.lower() in model.lower()
        ]
        return tuple(dict.fromkeys(found))

    def _check_rate(self) -> None:
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= MINUTE:
            self._recent.popleft()
        if len(self._recent) >= self._settings.max_rpm:
            raise ServerRefused(
                f"more than {self._settings.max_rpm} requests a minute", USER_REJECTED
            )
        self._recent.append(now)

"""A server asks the model: within limits, for a session that has a call to the server under way."""

import asyncio
import logging
import time
from collections import deque
from typing import Any

import msgspec

from hermes.config.settings.abilities import McpSampling
from hermes.core.errors import ProviderError
from hermes.core.messages import Assistant
from hermes.core.model import ModelRequest, Reply, ToolSpec
from hermes.mcp.caller import Ticket
from hermes.mcp.failures import INTERNAL_ERROR, USER_REJECTED, Refused
from hermes.mcp.sampling_messages import Said, conversation, reply_content, tool_rounds

MINUTE = 60.0
STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}
MOST_TOOLS = 64

log = logging.getLogger(__name__)


class Hint(msgspec.Struct, frozen=True):
    name: str = ""


class Preferences(msgspec.Struct, frozen=True):
    hints: tuple[Hint, ...] = ()


class OfferedTool(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    inputSchema: dict[str, Any] = {}  # noqa: N815 - as it stands on the wire


class ToolChoice(msgspec.Struct, frozen=True):
    mode: str = "auto"


class Wanted(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `sampling/createMessage`."""

    messages: tuple[Said, ...]
    system_prompt: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    model_preferences: Preferences | None = None
    tools: tuple[OfferedTool, ...] = ()
    tool_choice: ToolChoice | None = None


class Sampling:
    """What one server may have of the model."""

    def __init__(self, server: str, settings: McpSampling) -> None:
        self._server, self._settings = server, settings
        self._recent: deque[float] = deque()
        self._level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)

    def abilities(self) -> dict[str, Any]:
        """What is declared to the server."""
        if not self._settings.enabled:
            return {}
        return {"sampling": {"tools": {}} if self._settings.max_tool_rounds else {}}

    async def answer(self, params: dict[str, Any], ticket: Ticket | None) -> Any:
        if not self._settings.enabled:
            raise Refused("sampling is switched off", USER_REJECTED)
        if ticket is None or ticket.caller.sampler is None:
            raise Refused("no session is there to ask a model for", USER_REJECTED)
        wanted = msgspec.convert(params, Wanted)
        request = self._request(wanted)
        self._count()
        log.log(self._level, "%s asks the model (%d messages)", self._server, len(wanted.messages))
        try:
            with ticket.paused():
                async with asyncio.timeout(self._settings.timeout or None):
                    reply = await ticket.caller.sampler.ask(request, self._wishes(wanted))
        except TimeoutError:
            raise Refused("the model did not answer in time", INTERNAL_ERROR) from None
        except ProviderError as error:
            raise Refused(f"the model could not be asked: {error}", INTERNAL_ERROR) from error
        return _result(reply)

    def _request(self, wanted: Wanted) -> ModelRequest:
        cap = self._settings.max_tokens_cap
        asked = wanted.max_tokens if wanted.max_tokens and wanted.max_tokens > 0 else cap
        return ModelRequest(
            conversation(wanted.messages, wanted.system_prompt or ""),
            self._tools(wanted),
            max_tokens=min(asked, cap),
            temperature=wanted.temperature,
            stream=False,
        )

    def _tools(self, wanted: Wanted) -> tuple[ToolSpec, ...]:
        """Those of the server, which runs them itself; none when it has had its rounds."""
        unwanted = wanted.tool_choice is not None and wanted.tool_choice.mode == "none"
        if unwanted or tool_rounds(wanted.messages) >= self._settings.max_tool_rounds:
            return ()
        empty = {"type": "object", "properties": {}}
        return tuple(
            ToolSpec(tool.name, tool.description, tool.inputSchema or empty)
            for tool in wanted.tools[:MOST_TOOLS]
        )

    def _wishes(self, wanted: Wanted) -> tuple[str, ...]:
        """The setting decides; without one, what the server would like and may have."""
        if self._settings.model:
            return (self._settings.model,)
        hints = wanted.model_preferences.hints if wanted.model_preferences else ()
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

    def _count(self) -> None:
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= MINUTE:
            self._recent.popleft()
        if len(self._recent) >= self._settings.max_rpm:
            raise Refused(f"more than {self._settings.max_rpm} requests a minute", USER_REJECTED)
        self._recent.append(now)


def _result(reply: Reply) -> dict[str, Any]:
    message: Assistant = reply.message
    return {
        "role": "assistant",
        "content": reply_content(message),
        "model": reply.model,
        "stopReason": STOP_REASONS.get(message.finish_reason, message.finish_reason),
    }

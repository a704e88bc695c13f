"""Requests of the Anthropic messages API."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar

import msgspec

from hermes.core.messages import Assistant, Message, System, ToolResult
from hermes.core.model import ModelRequest
from hermes.providers.target import Target
from hermes.providers.wire.anthropic.form import AnthropicForm, signed, tool_form
from hermes.providers.wire.anthropic.reply import AnthropicReader
from hermes.providers.wire.effort import LEAST_BUDGET, effort_fields
from hermes.providers.wire.encoding import EMPTY, encoded_tools, joined
from hermes.providers.wire.headers import address
from hermes.providers.wire.marks import MOST_MARKS, has_content, last_marked, mark_of

DEFAULT_MAX_TOKENS = 8192
"""The API insists on a limit; this one holds when neither the request nor the model has one."""


class AnthropicDialect:
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def __init__(self, target: Target) -> None:
        self._target = target
        self._form, self._marked = AnthropicForm(), AnthropicForm(mark_of(target))

    def url(self, base_url: str) -> str:
        base = base_url.partition("?")[0].rstrip("/")
        return address(base_url, "/messages" if base.endswith("/v1") else "/v1/messages")

    def reader(self) -> AnthropicReader:
        return AnthropicReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        profile = self._target.profile
        leading = list(takewhile(lambda message: isinstance(message, System), request.messages))
        system = self._system(leading)
        body: dict[str, Any] = {
            "model": self._target.model,
            "max_tokens": request.max_tokens or profile.max_output or DEFAULT_MAX_TOKENS,
        }
        if system != EMPTY:
            body["system"] = msgspec.Raw(system)
        slots = MOST_MARKS - (system != EMPTY)
        body["messages"] = self._messages(request.messages[len(leading) :], slots)
        if request.tools and profile.tools:
            body["tools"] = encoded_tools(tool_form, request.tools)
        body.update(self._thinking(request, body["max_tokens"]))
        if request.temperature is not None and profile.temperature and "thinking" not in body:
            body["temperature"] = request.temperature
        if request.reply_schema is not None:
            form = {"type": "json_schema", "schema": request.reply_schema}
            body["output_config"] = {**body.get("output_config", {}), "format": form}
        if stream:
            body["stream"] = True
        return msgspec.json.encode(body | profile.extra_body)

    def _system(self, messages: Sequence[Message]) -> bytes:
        sent = [message for message in messages if has_content(message)]
        if not sent:
            return EMPTY
        *first, last = sent
        return bytes(joined([*(m.wire(self._form) for m in first), last.wire(self._marked)]))

    def _messages(self, messages: Sequence[Message], slots: int) -> list[dict[str, Any]]:
        """Neighbours of one role as one message, the last ones marked."""
        runs: list[tuple[str, list[Message]]] = []
        for message in messages:
            if not has_content(message):
                continue
            role = "assistant" if isinstance(message, Assistant) else "user"
            if not runs or runs[-1][0] != role:
                runs.append((role, []))
            runs[-1][1].append(message)
        marks = last_marked([True] * len(runs), slots if self._marked.mark else 0)
        return [
            {"role": role, "content": self._content(run, position in marks)}
            for position, (role, run) in enumerate(runs)
        ]

    def _content(self, messages: Sequence[Message], mark: bool) -> msgspec.Raw:
        *first, last = messages
        end = last.wire(self._marked if mark else self._form)
        return joined([message.wire(self._form) for message in first] + [end]) if first else end

    def _thinking(self, request: ModelRequest, max_tokens: int) -> dict[str, Any]:
        """The fields that ask for thinking. A budget must leave room for the answer."""
        profile = self._target.profile
        fields = effort_fields(profile.reasoning, request.reasoning_effort)
        budget = fields.get("thinking", {}).get("budget_tokens")
        if budget is None:
            return fields
        if _thoughts_lost(request.messages):
            return {}
        if request.max_tokens is None and max_tokens <= budget:
            max_tokens = min(max_tokens + budget, profile.max_output or max_tokens + budget)
        budget = min(budget, max_tokens // 2)
        if budget < LEAST_BUDGET:  # a limit somebody set is kept, and leaves no room to think
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": max_tokens}


def _thoughts_lost(messages: Sequence[Message]) -> bool:
    """Between a tool call and its result the API wants the thinking that led to the call.

    When another model made the call there is none, and the request would be refused.
    """
    said = [m for m in messages if not isinstance(m, ToolResult)]
    waiting = bool(messages) and isinstance(messages[-1], ToolResult)
    last = said[-1] if said else None
    return waiting and isinstance(last, Assistant) and not signed(last)

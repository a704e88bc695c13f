"""Requests of the chat-completions API, as OpenAI defined it and many endpoints speak it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from hermes.core.messages import Message, System, ToolResult
from hermes.core.model import ModelRequest
from hermes.providers.target import Target
from hermes.providers.wire.chat.form import ChatForm, can_carry, tool_form
from hermes.providers.wire.chat.reply import ChatReader
from hermes.providers.wire.effort import effort_fields
from hermes.providers.wire.encoding import Growing, encoded_tools
from hermes.providers.wire.headers import address
from hermes.providers.wire.marks import MOST_MARKS, last_marked, mark_of


class ChatDialect:
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        profile = target.profile
        self._target = target
        self._form = ChatForm(
            profile.developer_role, profile.thinking_field, profile.strict, profile.nine_letter_ids
        )
        self._marked = msgspec.structs.replace(self._form, mark=mark_of(target))
        self._growing = Growing(self._form)

    def url(self, base_url: str) -> str:
        return address(base_url, "/chat/completions")

    def reader(self) -> ChatReader:
        return ChatReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """The request as bytes: messages carry their own encoded form, so only new ones cost."""
        profile = self._target.profile
        body: dict[str, Any] = {
            "model": self._target.model,
            "messages": self._messages(request.messages),
        }
        if request.tools and profile.tools:
            body["tools"] = encoded_tools(tool_form, request.tools)
        if request.max_tokens is not None and profile.max_tokens_field:
            body[profile.max_tokens_field] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            body["temperature"] = request.temperature
        body.update(effort_fields(profile.reasoning, request.reasoning_effort))
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if stream:
            body["stream"] = True
            if profile.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(body | profile.extra_body)

    def _messages(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        if not self._marked.mark:
            return self._growing.encoded(messages)
        marks = _places(messages)
        return [
            message.wire(self._marked if position in marks else self._form)
            for position, message in enumerate(messages)
        ]


def _places(messages: Sequence[Message]) -> set[int]:
    """Where the marks go: on the system prompt and on the last messages that can carry one.

    Of the results of one reply only the last is marked, so that the marks reach further back.
    """
    system = bool(messages) and isinstance(messages[0], System) and can_carry(messages[0])
    carry = [
        can_carry(message)
        and not isinstance(message, System)
        and not (isinstance(message, ToolResult) and isinstance(after, ToolResult))
        for message, after in zip(messages, (*messages[1:], None), strict=True)
    ]
    return last_marked(carry, MOST_MARKS - system) | ({0} if system else set())

"""Makes any small model usable as an agent: our own tool calls over a JSON grammar."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from hermes.core.errors import ReplyInvalid
from hermes.core.messages import Assistant, Message, Text, ToolCall, ToolResult
from hermes.core.model import Model, ModelEvent, ModelRequest, Reply, TextDelta
from hermes.core.openai_format import canonical_arguments, made_call_id
from hermes.providers.small.incremental import ReplyText
from hermes.providers.small.profile import REPLY, SMALL, SmallProfile
from hermes.providers.small.schema import offered, reply_schema
from hermes.providers.small.transcript import (
    MARGIN,
    front,
    latest_turn,
    shortened,
    shown_result,
    tokens_of,
)
from hermes.providers.wrapper import ModelWrapper


class SmallModel(ModelWrapper):
    """Wraps a model that cannot use tools natively, or not with a long prompt.

    The agent's system prompt and tool schemas are replaced by a short prompt, a few tools and
    examples; the answer must follow a JSON Schema and is mapped back to a tool call or a text.
    """

    def __init__(self, inner: Model, profile: SmallProfile = SMALL) -> None:
        super().__init__(inner)
        self._profile = profile

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """As `Model.stream`. Raises `ReplyInvalid` when the answer is no call and no text."""
        reply_text = ReplyText()
        async with aclosing(self._inner.stream(self.small_request(request))) as events:
            async for event in events:
                match event:
                    case TextDelta():
                        if text := reply_text.feed(event.text):
                            yield TextDelta(text)
                    case Reply():
                        if text := reply_text.feed(event.message.text[reply_text.taken :]):
                            yield TextDelta(text)
                        if added := self._promised(reply_text.text, request.messages):
                            yield TextDelta(added)
                        yield self._mapped(event, reply_text.text + added, request)
                    case _:
                        yield event

    def small_request(self, request: ModelRequest) -> ModelRequest:
        """What is really sent."""
        profile = self._profile
        specs = offered(request.tools, profile)
        head = front(specs, profile)
        max_tokens = min(request.max_tokens or profile.max_tokens, profile.max_tokens)
        budget = profile.context - tokens_of(head, profile) - max_tokens - MARGIN
        allowed = () if self._must_reply(request.messages) else specs
        return ModelRequest(
            messages=head + shortened(request.messages, profile, budget),
            max_tokens=max_tokens,
            temperature=0 if request.temperature is None else request.temperature,
            reply_schema=reply_schema(allowed),
        )

    def _must_reply(self, messages: tuple[Message, ...]) -> bool:
        """True when the model goes round in circles after the latest message of the user."""
        calls = [
            (call.name, canonical_arguments(call.arguments))
            for message in latest_turn(messages)
            if isinstance(message, Assistant)
            for call in message.calls
        ]
        most = max(Counter(calls).values(), default=0)
        return most >= self._profile.same_call or len(calls) >= self._profile.max_calls

    def _promised(self, text: str, messages: tuple[Message, ...]) -> str:
        """What is missing of "The files are:": a small model announces a list and stops."""
        last = messages[-1] if messages else None
        if text.rstrip().endswith(":") and isinstance(last, ToolResult):
            return f"\n{shown_result(last, self._profile)}"
        return ""

    def _mapped(self, reply: Reply, text: str, request: ModelRequest) -> Reply:
        """The reply in the agent's own terms; `text` is what was streamed of it."""
        answer, finish_reason = reply.message, reply.message.finish_reason
        if finish_reason == "length" and text:
            cut = Assistant((Text(text),), finish_reason)
            return msgspec.structs.replace(reply, message=cut)
        name, value = self._decoded(answer)
        if name == REPLY:
            message = Assistant((Text(text),), finish_reason)
        else:
            arguments = msgspec.json.encode(value).decode()
            call = ToolCall(made_call_id(name, arguments, len(request.messages)), name, arguments)
            message = Assistant((call,), finish_reason="tool_calls")
        return msgspec.structs.replace(reply, message=message)

    def _decoded(self, message: Assistant) -> tuple[str, Any]:
        """The one key and its value."""
        try:
            answer = msgspec.json.decode(message.text, type=dict[str, Any])
        except msgspec.DecodeError:
            raise self._invalid(message, "is not the JSON it was asked for") from None
        if len(answer) != 1:
            raise self._invalid(message, "is not one call or one reply")
        [(name, value)] = answer.items()
        if name != REPLY and isinstance(value, dict):
            return name, value
        if name != REPLY or not isinstance(value, str):
            raise self._invalid(message, "is not one call or one reply")
        if not value.strip():
            raise self._invalid(message, "is empty")
        return name, value

    def _invalid(self, message: Assistant, what: str) -> ReplyInvalid:
        cut = " (it was cut off)" if message.finish_reason == "length" else ""
        return ReplyInvalid(
            f"the answer of {self.name} {what}{cut}",
            provider=self.provider,
            body=message.text[:200],
            hint="ask in other words, or use a larger model",
        )

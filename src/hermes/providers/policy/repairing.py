"""Send a refused request again without what was refused."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from hermes.core.errors import ProviderError, SignatureRefused, UnicodeRefused
from hermes.core.messages import Assistant, AssistantPart, Message, Thinking, ToolCall
from hermes.core.model import Model, ModelEvent, ModelRequest, Retrying, ToolSpec
from hermes.providers.policy.cleaning import clean_message, clean_tool
from hermes.providers.wrapper import ModelWrapper


class _Repair(msgspec.Struct, frozen=True):
    """Each function answers its argument itself when there is nothing to repair in it."""

    message: Callable[[Message], Message]
    tool: Callable[[ToolSpec], ToolSpec]
    done: str
    """What was done, for the user."""


class RepairingModel(ModelWrapper):
    """Repairs a request once for each kind of refusal, and every later request in the same way.

    The later ones too, because the history that was refused comes again with each of them, and
    because its beginning must stay the same for the provider's cache. A repaired message is made
    once and kept, so that its wire form is also made once.
    """

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self._repairs: list[_Repair] = []
        self._messages: dict[int, tuple[Message, Message]] = {}
        """By identity: a message and its repaired form. Holding the first keeps its id its own."""
        self._tools: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = ((), ())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        sent = self._repaired(request)
        while True:
            try:
                async with aclosing(self._inner.stream(sent)) as events:
                    async for event in events:
                        yield event
                return
            except (SignatureRefused, UnicodeRefused) as error:
                repair = _repair_for(error)
                if repair in self._repairs or not self._helps(repair, sent):
                    raise
                self._repairs.append(repair)
                self._messages, self._tools = {}, ((), ())
                sent = self._repaired(request)
                yield Retrying(f"{error}; {repair.done}", len(self._repairs), 0.0)

    def _helps(self, repair: _Repair, request: ModelRequest) -> bool:
        return any(repair.message(message) is not message for message in request.messages) or any(
            repair.tool(tool) is not tool for tool in request.tools
        )

    def _repaired(self, request: ModelRequest) -> ModelRequest:
        if not self._repairs:
            return request
        # Made anew from the old one, so that what left the conversation is let go.
        kept = {id(message): self._pair(message) for message in request.messages}
        self._messages = kept
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, tuple([self._tool(tool) for tool in request.tools]))
        return msgspec.structs.replace(
            request,
            messages=tuple([kept[id(message)][1] for message in request.messages]),
            tools=self._tools[1],
        )

    def _pair(self, message: Message) -> tuple[Message, Message]:
        pair = self._messages.get(id(message))
        if pair is None:
            repaired = message
            for repair in self._repairs:
                repaired = repair.message(repaired)
            pair = (message, repaired)
        return pair

    def _tool(self, tool: ToolSpec) -> ToolSpec:
        for repair in self._repairs:
            tool = repair.tool(tool)
        return tool


def without_signatures(message: Message) -> Message:
    """Without what only the provider that made it can read; the texts stay."""
    if not isinstance(message, Assistant):
        return message
    parts = tuple([_unsigned(part) for part in message.parts])
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return Assistant(parts, message.finish_reason)


def _unsigned(part: AssistantPart) -> AssistantPart:
    if isinstance(part, Thinking) and (part.details or part.items):
        return Thinking(part.text)
    if isinstance(part, ToolCall) and part.extra:
        return ToolCall(part.id, part.name, part.arguments)
    return part


def _same_tool(tool: ToolSpec) -> ToolSpec:
    return tool


SIGNATURES = _Repair(without_signatures, _same_tool, "sent again without earlier reasoning")
CHARACTERS = _Repair(clean_message, clean_tool, "sent again without unusual characters")


def _repair_for(error: ProviderError) -> _Repair:
    return SIGNATURES if isinstance(error, SignatureRefused) else CHARACTERS

"""The input of a response, as messages of ours."""

from collections.abc import Sequence

from hermes.core.messages import Assistant, Message, ToolCall, User
from hermes.gateway.platforms.api_server.chat.wire import ChatMessage
from hermes.gateway.platforms.api_server.reading import UNSUPPORTED, message_of
from hermes.gateway.platforms.api_server.refusals import invalid
from hermes.gateway.platforms.api_server.responses.wire import InputItem

IGNORED = frozenset({"reasoning"})
CALL = "function_call"


def input_messages(given: str | Sequence[InputItem]) -> list[Message]:
    """Raises `Refused` for content that cannot be used."""
    if isinstance(given, str):
        return [User.say(given)]
    messages: list[Message] = []
    for number, item in enumerate(given):
        if item.type in IGNORED:
            continue
        message = _message(item, f"input[{number}]")
        before = messages[-1] if messages else None
        if item.type == CALL and isinstance(before, Assistant) and isinstance(message, Assistant):
            # What one reply said and called comes as several items.
            messages[-1] = Assistant((*before.parts, *message.parts), message.finish_reason)
        else:
            messages.append(message)
    return messages


def _message(item: InputItem, param: str) -> Message:
    match item.type:
        case None | "message":
            if item.role is None:
                raise invalid("a message needs a role", param=param)
            return message_of(ChatMessage(item.role, item.content), param)
        case "function_call":
            call = ToolCall(item.call_id or "", item.name or "", item.arguments or "{}")
            return Assistant((call,), "tool_calls")
        case "function_call_output":
            result = ChatMessage("tool", item.output, tool_call_id=item.call_id)
            return message_of(result, param)
        case other:
            message = f"an item of the type {other[:100]!r} cannot be used"
            raise invalid(message, param=param, code=UNSUPPORTED)

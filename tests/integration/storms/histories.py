"""What must hold of every conversation: as it is sent, and as it is stored."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from hermes.core.events import Event, TextFinished, ToolFinished
from hermes.core.messages import INTERRUPTED_RESULT, Assistant, Message, ToolResult
from hermes.core.testing.http_server import RecordedRequest
from hermes.store.records import SessionFilter
from hermes.store.rows import repair_history
from hermes.store.session_store import SessionStore


class Sent(NamedTuple):
    """One item of a conversation on any wire."""

    kind: str  #: `text`, `call` or `result`.
    id: str = ""
    text: str = ""
    role: str = ""


def sent(request: RecordedRequest) -> list[Sent]:
    """The conversation of a request, whatever its wire."""
    body = request.body
    if "input" in body:
        return [item for each in body["input"] for item in _responses(each)]
    reader = _anthropic if request.path.endswith("/messages") else _chat
    return [item for message in body["messages"] for item in reader(message)]


def _chat(message: dict[str, Any]) -> Iterable[Sent]:
    if message["role"] == "tool":
        yield Sent("result", message["tool_call_id"], message["content"])
        return
    yield Sent("text", text=_flat(message.get("content")), role=message["role"])
    for call in message.get("tool_calls") or ():
        yield Sent("call", call["id"])


def _anthropic(message: dict[str, Any]) -> Iterable[Sent]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "tool_use":
            yield Sent("call", block["id"])
        elif block["type"] == "tool_result":
            yield Sent("result", block["tool_use_id"], _flat(block.get("content")))
        else:
            yield Sent("text", text=block.get("text", ""), role=message["role"])


def _responses(item: dict[str, Any]) -> Iterable[Sent]:
    kind = item.get("type", "message")
    if kind == "function_call":
        yield Sent("call", item["call_id"])
    elif kind == "function_call_output":
        yield Sent("result", item["call_id"], _flat(item["output"]))
    elif kind == "message":
        yield Sent("text", text=_flat(item["content"]), role=item["role"])


def _flat(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(block.get("text", "") for block in content)


def check_request(request: RecordedRequest) -> None:
    """Each call is followed by its one result, in the order of the calls; no result is alone."""
    open_calls: list[str] = []
    answered = False
    for item in sent(request):
        if item.kind == "call":
            assert not answered or not open_calls, f"a call before all results: {item}"
            open_calls.append(item.id)
            answered = False
        elif item.kind == "result":
            assert open_calls, f"a result without a call, or a second one: {item}"
            assert item.id == open_calls.pop(0), f"a result out of order: {item}"
            answered = True
        elif open_calls:
            raise AssertionError(f"calls without results {open_calls} before {item}")
    assert not open_calls, f"calls without results at the end: {open_calls}"
    if request.path.endswith("/messages"):
        _check_roles(request.body["messages"])


def _check_roles(messages: list[dict[str, Any]]) -> None:
    """As Anthropic insists on it."""
    roles = [message["role"] for message in messages]
    assert roles[0] == "user", "the conversation begins with the assistant"
    assert all(one != other for one, other in pairwise(roles)), f"two messages of one role: {roles}"


class Repaired(NamedTuple):
    """What `repair` did to a stored conversation."""

    added: tuple[str, ...]  #: Ids of calls that had no result.
    lost: tuple[Message, ...]


def repaired(messages: tuple[Message, ...]) -> Repaired:
    """Orders of results apart, which are logged as they finish."""
    sound = repair_history(messages)
    assert repair_history(sound) == sound, "a repaired history is not sound"
    before, after = Counter(map(_key, messages)), Counter(map(_key, sound))
    lost = [message for message in messages if before[_key(message)] > after[_key(message)]]
    added = [message for message in sound if after[_key(message)] > before[_key(message)]]
    for message in added:
        assert isinstance(message, ToolResult) and message.text == INTERRUPTED_RESULT
    return Repaired(tuple([message.call_id for message in added]), tuple(lost))


def _key(message: Message) -> str:
    return repr(message)


class Stored(NamedTuple):
    """Everything that was ever logged, of all sessions."""

    conversations: dict[str, tuple[Message, ...]]
    texts: set[str]
    results: set[tuple[str, str]]  #: Call id and text.
    calls: set[str]
    end_reasons: dict[str, str]


async def stored(store: SessionStore) -> Stored:
    found = Stored({}, set(), set(), set(), {})
    for info in await store.sessions(SessionFilter(limit=10_000)):
        found.conversations[info.id] = await store.messages(info.id)
        found.end_reasons[info.id] = info.end_reason
        for entry in await store.log(info.id):
            match entry.message:
                case Assistant() as reply:
                    found.texts.add(reply.text)
                    found.calls.update(call.id for call in reply.calls)
                case ToolResult() as result:
                    found.results.add((result.call_id, result.text))
    return found


def check_acknowledged(events: Iterable[Event], found: Stored) -> None:
    """Check that all that was shown to the user is stored."""
    for event in events:
        match event:
            case TextFinished():
                assert event.text in found.texts, f"a reply is lost: {event}"
            case ToolFinished():
                result = event.call_id, event.result.replace("\0", "")  # the store has no NUL
                assert result in found.results, f"a result is lost: {event.call_id}"


def check_file(path: Path) -> None:
    if not path.exists():
        return
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert not list(connection.execute("PRAGMA foreign_key_check"))
    finally:
        connection.close()

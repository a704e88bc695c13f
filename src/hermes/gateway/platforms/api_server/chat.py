"""POST /v1/chat/completions: the client sends the whole conversation each time."""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from hermes.core.events import ToolFinished, ToolStarted, TurnFinished
from hermes.gateway.platforms.api_server.http import (
    SSE,
    Headers,
    Reply,
    Request,
    answered,
    event_bytes,
    failure_of,
    form_wanted,
    joined,
)
from hermes.gateway.platforms.api_server.reading import (
    AnswerMessage,
    ChatCompletion,
    ChatRequest,
    Choice,
    Chunk,
    ChunkChoice,
    Delta,
    ToolProgress,
    chat_messages,
    conversation,
    label_of,
    usage_of,
)
from hermes.gateway.platforms.api_server.turns import Ask, Fingerprint, Running, Speech, Turns

PROGRESS = "hermes.tool.progress"
DONE = b"data: [DONE]\n\n"
SESSION = "X-Hermes-Session-Id"
NO_DELTA = [ChunkChoice(Delta())]

CUT = frozenset({"truncated", "max_iterations", "iteration_budget"})
"""Exit reasons of a turn whose answer is incomplete."""


class ChatCompletions:
    def __init__(self, turns: Turns, model_name: str, now: Callable[[], float]) -> None:
        self._turns, self._model_name, self._now = turns, model_name, now

    async def create(self, request: Request) -> Reply:
        wanted = request.decoded(ChatRequest)
        talk = conversation(chat_messages(wanted.messages))
        session_id = request.headers.get(SESSION.lower(), "")
        manner = joined(talk.manner, form_wanted(wanted.response_format))
        print_ = Fingerprint(wanted.user or "", manner).added(talk.history)
        if session_id:
            await self._turns.check_session(session_id)
        ask = Ask(
            talk.message, manner, print_.key if talk.history else "", session_id, talk.history
        )
        running = await self._turns.begin(ask, request.on_gone)
        print_.added((talk.message,))
        writer = _Writer(
            f"chatcmpl-{secrets.token_hex(12)}", int(self._now()), wanted.model or self._model_name
        )
        headers = ((SESSION, running.session_id),)
        if not wanted.stream:
            return await _whole(running, writer, print_, headers)
        options = wanted.stream_options
        counted = bool(options and options.include_usage)
        stream = _streamed(running, writer, print_, usage=counted)
        return Reply(headers=headers, kind=SSE, stream=stream, close=running.close)


async def _whole(
    running: Running, writer: "_Writer", print_: Fingerprint, headers: Headers
) -> Reply:
    end = await running.finished(lambda end: print_.and_then("assistant", answer_of(end)))
    failure = failure_of(end)
    if failure is not None:
        failure.headers += headers
        raise failure
    return answered(writer.completion(end), headers=headers)


async def _streamed(
    running: Running, writer: "_Writer", print_: Fingerprint, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the role, the text, the finish reason, and the usage if the client asked for it."""
    unset = None if usage else msgspec.UNSET
    speech = Speech()
    yield writer.chunk(Delta("assistant", ""), usage=unset)
    async with aclosing(running.events()) as events:
        async for event in events:
            if text := speech.hear(event):
                yield writer.chunk(Delta(content=text), usage=unset)
            elif isinstance(event, ToolStarted | ToolFinished):
                yield writer.progress(event)
            elif isinstance(event, TurnFinished):
                running.keep_as(
                    print_.and_then("assistant", answer_of(event)),
                    print_.and_then("assistant", speech.text),
                )
                for piece in writer.end(event, unset):
                    yield piece
    yield DONE


class _Writer:
    """Creates the JSON of one completion."""

    def __init__(self, name: str, created: int, model: str) -> None:
        self._about = (name, created, model)

    def completion(self, end: TurnFinished) -> ChatCompletion:
        choice = Choice(AnswerMessage(answer_of(end)), _why(end))
        return ChatCompletion(*self._about, [choice], usage_of(end.usage))

    def chunk(
        self, delta: Delta, finish: str | None = None, usage: msgspec.UnsetType | None = None
    ) -> bytes:
        chunk = Chunk(*self._about, [ChunkChoice(delta, finish)], usage=usage)
        return event_bytes(msgspec.json.encode(chunk))

    def progress(self, event: ToolStarted | ToolFinished) -> bytes:
        if isinstance(event, ToolStarted):
            call = event.call
            said = ToolProgress(*self._about, NO_DELTA, call.name, call.id, "started")
            said = msgspec.structs.replace(said, label=label_of(call.arguments))
        else:
            status = "failed" if event.failed else "finished"
            said = ToolProgress(*self._about, NO_DELTA, event.name, event.call_id, status)
            said = msgspec.structs.replace(said, seconds=round(event.seconds, 3))
        return event_bytes(msgspec.json.encode(said), PROGRESS)

    def end(self, end: TurnFinished, usage: msgspec.UnsetType | None) -> list[bytes]:
        failure = failure_of(end)
        if failure is not None:
            return [event_bytes(msgspec.json.encode(failure.answer))]
        pieces = [self.chunk(Delta(), _why(end), usage)]
        if usage is None:
            counted = Chunk(*self._about, [], usage=usage_of(end.usage))
            pieces.append(event_bytes(msgspec.json.encode(counted)))
        return pieces


def answer_of(end: TurnFinished) -> str:
    return "" if end.exit_reason == "empty" else end.text


def _why(end: TurnFinished) -> Literal["stop", "length"]:
    return "length" if end.exit_reason in CUT else "stop"

"""The reason-and-act loop: ask the model, run what it asks for, until it answers."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from time import monotonic
from typing import assert_never

import msgspec

from hermes.agent.compaction import MOST_ROUNDS, Compaction
from hermes.agent.dispatch import Dispatcher
from hermes.agent.turn import Notices, Turn
from hermes.core.errors import ContextOverflow, HermesError, StoreError
from hermes.core.events import (
    Event,
    ModelCalled,
    Notice,
    TextFinished,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from hermes.core.messages import Message, User
from hermes.core.model import FellBack, Model, ReasoningDelta, Reply, Retrying, TextDelta
from hermes.core.ports import SessionLog
from hermes.core.usage import ModelCall
from hermes.util.log_context import in_session

logger = logging.getLogger(__name__)


Aside = Callable[[Sequence[Message], User], Awaitable[str]]


async def nothing_beside(_history: Sequence[Message], _question: User) -> str:
    return ""


class Parts(msgspec.Struct, frozen=True):
    """What a turn works with."""

    model: Model
    tools: Dispatcher
    log: SessionLog
    notices: Notices
    compaction: Compaction
    aside: Aside


async def run_turn(turn: Turn, parts: Parts, question: User | None) -> AsyncGenerator[Event, None]:
    """All events of a turn. Whatever goes wrong is the last event, never an exception.

    Without a `question` it is a turn that was broken off, and goes on where it was.
    """
    yield TurnStarted(turn.session_id, parts.model.name, parts.model.provider)
    try:
        async with aclosing(_steps(turn, parts, question)) as events:
            async for event in events:
                yield event
        end = turn.finished()
    except HermesError as error:
        end = turn.failed(error)
    except Exception as bug:  # a turn always ends with an event, also when we are at fault
        logger.exception("the turn failed")
        end = turn.failed(HermesError(f"internal error: {type(bug).__name__}: {bug}"))
    yield await _close(turn, parts.log, end)


async def _steps(turn: Turn, parts: Parts, question: User | None) -> AsyncGenerator[Event, None]:
    if question is not None:
        await _take_up(turn, parts, question)
    async with aclosing(parts.compaction.at_start(turn)) as events:
        async for event in events:
            yield event
    while turn.take_step():
        async with aclosing(_ask(turn, parts)) as events:
            async for event in events:
                yield event
        async with aclosing(_answer(turn, parts)) as events:
            async for event in events:
                yield event


async def _take_up(turn: Turn, parts: Parts, question: User) -> None:
    """Stored as it was said; sent with what stands beside it."""
    history = tuple(turn.messages)
    turn.messages.append(question)
    await parts.log.append(turn.session_id, question)
    beside = await turn.cancel.guard(parts.aside(history, question))
    turn.messages[-1] = question.beside(beside)


async def _answer(turn: Turn, parts: Parts) -> AsyncGenerator[Event, None]:
    """What the reply leads to: tools that run, or something said that needs another reply."""
    if turn.calls:
        async with aclosing(parts.tools.run(turn)) as events:
            async for event in events:
                yield event
    if (turn.calls or parts.notices.steered) and (news := parts.notices.take()):
        await _hear(turn, parts, news)
        yield Notice(news.text)
    elif remedy := turn.remedy():
        await _hear(turn, parts, remedy)
    if turn.calls:
        async with aclosing(parts.compaction.after_tools(turn)) as events:
            async for event in events:
                yield event


async def _hear(turn: Turn, parts: Parts, message: User) -> None:
    await parts.log.append(turn.session_id, message)
    turn.hear(message)


async def _ask(turn: Turn, parts: Parts) -> AsyncGenerator[Event, None]:
    """One model call, made again with less context when it was too long."""
    for round_left in reversed(range(MOST_ROUNDS + 1)):
        try:
            async with aclosing(_call(turn, parts)) as events:
                async for event in events:
                    yield event
            return
        except ContextOverflow as error:
            if not round_left:
                raise
            async with aclosing(parts.compaction.recover(turn, error)) as events:
                async for event in events:
                    yield event


async def _call(turn: Turn, parts: Parts) -> AsyncGenerator[Event, None]:
    """The reply is stored before anybody acts on it."""
    yield ModelCalled(turn.iteration)
    began = monotonic()
    async for event in turn.cancel.iterate(parts.model.stream(turn.request())):
        match event:
            case TextDelta() | ReasoningDelta() | Retrying() | FellBack():
                yield event
            case Reply():
                seconds = round(monotonic() - began, 3)
                call = _accounted(event, seconds)
                await parts.log.append(turn.session_id, event.message, call)
                parts.compaction.keeper.reported(turn.messages, event.usage)
                turn.add_reply(event)
                if event.message.text:
                    yield TextFinished(event.message.text)
                yield _reported(turn.session_id, event, seconds)
            case _:
                assert_never(event)


def _accounted(reply: Reply, seconds: float) -> ModelCall:
    return ModelCall(reply.usage, reply.model, reply.provider, reply.cost_usd, seconds=seconds)


def _reported(session_id: str, reply: Reply, seconds: float) -> UsageReported:
    reason = reply.message.finish_reason
    details = (reply.model, reply.provider, seconds, reply.usage.prompt, reply.usage.output, reason)
    with in_session(session_id):
        logger.info("%s on %s: %.3f s, %d tokens in, %d out, %s", *details)
    return UsageReported(reply.usage, reply.cost_usd, reply.model, reply.provider, reason, seconds)


async def _close(turn: Turn, log: SessionLog, end: TurnFinished) -> TurnFinished:
    """`end`, with its reason stored. A store that fails here is told unless worse was."""
    with in_session(turn.session_id):
        level = logging.WARNING if end.exit_reason == "failed" else logging.INFO
        details = (end.exit_reason, end.api_calls, end.usage.prompt, end.usage.output, end.error)
        logger.log(level, "turn ended: %s, %d calls, %d tokens in, %d out %s", *details)
    try:
        await log.finish(turn.session_id, end.exit_reason)
    except StoreError as error:
        return end if end.error else turn.failed(error)
    return end

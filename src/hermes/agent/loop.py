"""The reason-and-act loop: ask the model, run what it asks for, until it answers."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic
from typing import assert_never

from hermes.agent.dispatch import Dispatcher
from hermes.agent.notices import Notices
from hermes.agent.turn import Turn
from hermes.core.errors import HermesError, StoreError
from hermes.core.events import (
    Event,
    ModelCalled,
    Notice,
    TextFinished,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from hermes.core.model import FellBack, Model, ReasoningDelta, Reply, Retrying, TextDelta
from hermes.core.ports import SessionLog
from hermes.core.usage import ModelCall
from hermes.util.log_context import in_session

logger = logging.getLogger(__name__)


async def run_turn(
    turn: Turn, model: Model, tools: Dispatcher, log: SessionLog, notices: Notices
) -> AsyncGenerator[Event, None]:
    """All events of a turn. Whatever goes wrong is the last event, never an exception."""
    yield TurnStarted(turn.session_id, model.name, model.provider)
    try:
        await log.append(turn.session_id, turn.question)
        while turn.take_step():
            async with aclosing(_ask(turn, model, log)) as events:
                async for event in events:
                    yield event
            async with aclosing(tools.run(turn)) as events:
                async for event in events:
                    yield event
            if turn.calls and (news := notices.take()):
                await log.append(turn.session_id, news)
                turn.messages.append(news)
                yield Notice(news.text)
        end = turn.finished()
    except HermesError as error:
        end = turn.failed(error)
    except Exception as bug:  # a turn always ends with an event, also when we are at fault
        logger.exception("the turn failed")
        end = turn.failed(HermesError(f"internal error: {type(bug).__name__}: {bug}"))
    yield await _close(turn, log, end)


async def _ask(turn: Turn, model: Model, log: SessionLog) -> AsyncGenerator[Event, None]:
    """One model call. The reply is stored before anybody acts on it."""
    yield ModelCalled(turn.iteration)
    began = monotonic()
    async for event in turn.cancel.iterate(model.stream(turn.request())):
        match event:
            case TextDelta() | ReasoningDelta() | Retrying() | FellBack():
                yield event
            case Reply():
                await log.append(turn.session_id, event.message)
                await log.record_call(turn.session_id, _call(event, monotonic() - began))
                turn.add_reply(event.message, event.usage, event.cost_usd)
                if event.message.text:
                    yield TextFinished(event.message.text)
                yield UsageReported(event.usage, event.cost_usd)
            case _:
                assert_never(event)


def _call(reply: Reply, seconds: float) -> ModelCall:
    return ModelCall(
        reply.usage, reply.model, reply.provider, reply.cost_usd, seconds=round(seconds, 3)
    )


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

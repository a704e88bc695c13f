"""The agent loop: call the model, run the tools it asks for, repeat until it answers.

Order matters in three places. A message is stored before anything acts on it, so a crash neither
loses nor repeats work. `turn.cancel` guards every wait, so a stop takes effect within a second.
Compaction runs between a complete set of tool results and the next request, never inside one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

import msgspec

from hermes.agent.compaction import MAX_ROUNDS, Compactor
from hermes.agent.dispatch import ToolDispatcher
from hermes.agent.turn import PendingMessages, Turn
from hermes.core.errors import ContextOverflow, HermesError, Interrupted, StoreError
from hermes.core.events import (
    Emit,
    ModelCalled,
    Notice,
    TextFinished,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from hermes.core.messages import INTERRUPTED_REPLY, Assistant, Message, Text, User
from hermes.core.model import (
    FellBack,
    Model,
    ModelCall,
    ModelEvent,
    Reply,
    Retrying,
    TextDelta,
)
from hermes.store import SessionStore
from hermes.util.concurrency import in_session

logger = logging.getLogger(__name__)

AddContext = Callable[[Sequence[Message], User], Awaitable[str]]
"""Returns text to send with a user message, given the history before it: memories, hints."""


async def no_added_context(_history: Sequence[Message], _question: User) -> str:
    return ""


class TurnDeps(msgspec.Struct, frozen=True):
    """What a turn works with."""

    model: Model
    tools: ToolDispatcher
    log: SessionStore
    pending: PendingMessages
    compactor: Compactor
    add_context: AddContext


async def run_turn(turn: Turn, deps: TurnDeps, question: User | None, emit: Emit) -> TurnFinished:
    """Run one turn and return its end, which the caller emits as the last event.

    `question` is None for an unfinished turn, which continues where it was. A failure becomes a
    `TurnFinished` with its error. Only cancellation of the task propagates; the turn then stays
    unfinished in the log and can be resumed.
    """
    emit(TurnStarted(turn.session_id, deps.model.name, deps.model.provider))
    deps.tools.check_own_files(emit)
    try:
        await _run_steps(turn, deps, question, emit)
        end = turn.finished()
    except HermesError as error:
        end = turn.failed(error)
    except Exception as bug:  # the boundary: a turn ends with an event, also on our own bugs
        logger.exception("the turn failed")
        end = turn.failed(HermesError(f"internal error: {type(bug).__name__}: {bug}"))
    return await _store_end(turn, deps.log, end)


async def _run_steps(turn: Turn, deps: TurnDeps, question: User | None, emit: Emit) -> None:
    if question is not None:
        await _store_question(turn, deps, question)
    await deps.compactor.before_first_call(turn, emit)
    while turn.next_step():
        await _call_model_compacting(turn, deps, emit)
        # Let surfaces handle the reply: what the user says to it still belongs to this turn.
        await asyncio.sleep(0)
        if turn.calls:
            await deps.tools.run(turn, emit)  # stores each result as soon as it exists
            if (images := turn.take_images()) is not None:
                await _store_user_message(turn, deps, images)
        if (turn.calls or deps.pending.steered) and (message := deps.pending.take()):
            await _store_user_message(turn, deps, message)
            emit(Notice(message.text))
        elif remedy := turn.remedy():
            await _store_user_message(turn, deps, remedy)
        if turn.calls:
            await deps.compactor.after_tools(turn, emit)


async def _store_question(turn: Turn, deps: TurnDeps, question: User) -> None:
    """Store the question as the user wrote it; the copy in the request carries added context.

    The context is looked up after the question is stored, so that a stop during the look-up does
    not lose the message.
    """
    history = tuple(turn.messages)
    turn.messages.append(question)
    await deps.log.append(turn.session_id, question)
    context = await turn.cancel.guard(deps.add_context(history, question))
    turn.messages[-1] = question.with_aside(context)


async def _store_user_message(turn: Turn, deps: TurnDeps, message: User) -> None:
    await deps.log.append(turn.session_id, message)
    turn.add_user_message(message)


async def _call_model_compacting(turn: Turn, deps: TurnDeps, emit: Emit) -> None:
    """Make one model call, repeated with a compacted history while the request is too long."""
    for rounds_left in reversed(range(MAX_ROUNDS + 1)):
        try:
            await _call_model(turn, deps, emit)
            return
        except ContextOverflow as error:
            if not rounds_left:
                raise
            await deps.compactor.recover(turn, error, emit)


async def _call_model(turn: Turn, deps: TurnDeps, emit: Emit) -> None:
    """Make one model call. The reply is stored before anything acts on it."""
    emit(ModelCalled(turn.iteration))
    began = monotonic()
    texts: list[str] = []

    def collect(event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            texts.append(event.text)
        elif isinstance(event, Retrying | FellBack):
            texts.clear()
        emit(event)

    try:
        reply = await turn.cancel.guard(deps.model.call(turn.request(), collect))
    except Interrupted:
        await _store_partial_reply(turn, deps.log, "".join(texts))
        raise
    await _add_reply(turn, deps, reply, round(monotonic() - began, 3), emit)


async def _add_reply(turn: Turn, deps: TurnDeps, reply: Reply, seconds: float, emit: Emit) -> None:
    message, usage = reply.message, reply.usage
    call = ModelCall(usage, reply.model, reply.provider, reply.cost_usd, seconds=seconds)
    await deps.log.append(turn.session_id, message, call)
    deps.compactor.policy.record_usage(turn.messages, usage)
    turn.add_reply(reply)
    if message.text:
        emit(TextFinished(message.text))
    reason = message.finish_reason
    details = (reply.model, reply.provider, seconds, usage.prompt, usage.output, reason)
    with in_session(turn.session_id):
        logger.info("%s on %s: %.3f s, %d tokens in, %d out, %s", *details)
    emit(UsageReported(usage, reply.cost_usd, reply.model, reply.provider, reason, seconds))


async def _store_partial_reply(turn: Turn, log: SessionStore, text: str) -> None:
    """Store the text of a reply that the user stopped, marked as interrupted."""
    if turn.keep_partial_reply and text.strip():
        marked = Text(f"{text.rstrip()}\n\n{INTERRUPTED_REPLY}")
        message = Assistant((marked,), finish_reason="interrupted")
        await log.append(turn.session_id, message)
        turn.messages.append(message)


async def _store_end(turn: Turn, log: SessionStore, end: TurnFinished) -> TurnFinished:
    """Store how the turn ended. A store failure is reported unless the turn failed already."""
    with in_session(turn.session_id):
        level = logging.WARNING if end.exit_reason == "failed" else logging.INFO
        details = (end.exit_reason, end.api_calls, end.usage.prompt, end.usage.output, end.error)
        logger.log(level, "turn ended: %s, %d calls, %d tokens in, %d out %s", *details)
    try:
        await log.finish(turn.session_id, end.exit_reason)
    except StoreError as error:
        return end if end.error else turn.failed(error)
    return end

"""An agent: one conversation with a model, its tools and its log."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import msgspec

from hermes.agent.compaction import Compactor
from hermes.agent.dispatch import ToolDispatcher
from hermes.agent.loop import AddContext, TurnDeps, no_added_context, run_turn
from hermes.agent.turn import IterationBudget, PendingMessages, Turn
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Emit, Event, Notice, TurnFinished
from hermes.core.messages import Assistant, Message, System, Text, User
from hermes.core.model import ModelRequest, ModelSource
from hermes.core.ports import Observer
from hermes.store import SessionStore, repair_history
from hermes.tools.checkpoints import TurnCheckpoints
from hermes.util.lazy import late_pattern
from hermes.util.text import clean

log = logging.getLogger(__name__)

_MEMORY_TAGS = late_pattern(r"</?memory-context\b[^>]*>")

AfterTurn = Callable[["Agent", TurnFinished], Awaitable[None]]


class AgentOptions(msgspec.Struct, frozen=True):
    """The optional parts of an agent."""

    prefill: tuple[Message, ...] = ()
    """Sent after the system prompt in every request; never stored."""
    ephemeral_system: str = ""  #: Sent after the system prompt; never stored.
    add_context: AddContext = no_added_context
    """Text to send with a user message, given the history before it; never stored."""
    workspace: TurnCheckpoints | None = None
    redact: Callable[[str], str] = str
    """Removes known secrets from user messages and error messages."""
    observers: tuple[Observer, ...] = ()
    on_turn_end: tuple[AfterTurn, ...] = ()  #: Work that completes before the turn is over.
    background: tuple[AfterTurn, ...] = ()  #: Work that starts after a turn and is not awaited.
    has_next_turn: bool = True
    """False if this is the last turn, so that nothing is prepared for another."""
    wraps_up: bool = True  #: See `Turn`.
    budget: IterationBudget | None = None
    """For a subagent, the budget of the turn that started it. By default each turn has its own."""
    abandoned: bool = False  #: True if the stored session has no end.


DEFAULT_OPTIONS = AgentOptions()


class Agent:
    """Runs the turns of one session, one at a time."""

    def __init__(
        self,
        session_id: str,
        system: System,
        history: tuple[Message, ...],
        models: ModelSource,
        dispatcher: ToolDispatcher,
        log: SessionStore,
        compactor: Compactor,
        *,
        base_request: ModelRequest,
        max_iterations: int,
        pending: PendingMessages | None = None,
        options: AgentOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`base_request` holds what all requests share: tools, effort and limits, no messages."""
        self.session_id = session_id
        self.models = models
        self.pending = pending or PendingMessages()
        self.budget = options.budget or IterationBudget(max_iterations)
        self.tools = base_request.tools
        self.base_request = base_request
        self.system = system
        self.extra_system_prompt = ""
        """Sent after the system prompt, such as a personality; never stored."""
        self._history, self._dispatcher, self._log = history, dispatcher, log
        self._compactor = compactor
        self._max_iterations, self._options = max_iterations, options
        self._turn: Turn | None = None
        self._has_run = False
        self._background: set[asyncio.Task[None]] = set()

    @property
    def history(self) -> tuple[Message, ...]:
        return self._history

    @property
    def prefix(self) -> tuple[Message, ...]:
        """The messages that every request begins with."""
        texts = (self.system.text, self._options.ephemeral_system, self.extra_system_prompt)
        return (System("\n\n".join(filter(None, texts))), *self._options.prefill)

    @property
    def running(self) -> bool:
        """True while a turn runs."""
        return self._turn is not None

    @property
    def abandoned(self) -> bool:
        """True if the process that ran the last turn ended before the turn did."""
        return self._options.abandoned and not self._has_run and self.unfinished

    @property
    def unfinished(self) -> bool:
        """True if the last turn has no answer: it was stopped, failed, or was abandoned."""
        if not self._history:
            return False
        last = self._history[-1]
        return not isinstance(last, Assistant) or bool(last.calls)

    def run(self, message: User) -> AsyncGenerator[Event, None]:
        """Store `message` and yield the events of the turn that answers it."""
        return event_stream(partial(self.turn, message))

    def resume(self) -> AsyncGenerator[Event, None]:
        """Continue an unfinished turn. Tool calls that have a result are not repeated."""
        return event_stream(partial(self.turn, None))

    async def turn(self, question: User | None, emit: Emit) -> None:
        """Run a turn. `emit` is called with each event; the last one is `TurnFinished`.

        `emit` must not block. Cancelling stops the turn, which can then be resumed.
        """
        if question is None and not self.unfinished:
            raise UsageError("there is no unfinished turn to continue")
        question = question and self._sanitize(question)
        turn = self._begin()

        def send(event: Event) -> None:
            self.session_id = turn.session_id
            emit(self._observe(event))

        workspace = self._options.workspace
        if workspace is not None:
            workspace.turn_started(self.session_id, question.text if question else "resumed")
        try:
            deps = TurnDeps(
                self.models.for_turn(),
                self._dispatcher,
                self._log,
                self.pending,
                self._compactor,
                self._options.add_context,
            )
            end = await run_turn(turn, deps, question, send)
            for text in await self._end_workspace_turn():
                send(Notice(text))
            end = msgspec.structs.replace(end, error=self._options.redact(end.error))
            self.session_id, self._history = turn.session_id, repair_history(turn.messages)
            for text in await self._finish(end):
                send(Notice(text))
        finally:
            await self._end_workspace_turn()
            # A stop between a reply and its tools leaves calls without results.
            self.session_id, self._history = turn.session_id, repair_history(turn.messages)
            self._turn = None
        send(end)

    def _begin(self) -> Turn:
        if self._turn is not None:
            raise UsageError("a turn is already running in this session")
        self._has_run = True
        if self._options.budget is None:
            self.budget.used = 0
        self._turn = Turn(
            self.session_id,
            self.prefix,
            self._history,
            self.base_request,
            self.budget,
            self._max_iterations,
            self._options.wraps_up,
        )
        return self._turn

    def rewrite(self, history: tuple[Message, ...]) -> None:
        """Replace the conversation by another state of it, which the log already has."""
        if self._turn is not None:
            raise UsageError("a turn is running in this session", hint="stop it with /stop")
        self._history = history

    def _observe(self, event: Event) -> Event:
        for observer in self._options.observers:
            observer.see(event)
        return event

    async def _finish(self, end: TurnFinished) -> list[str]:
        """Complete the work of `on_turn_end`, start that of `background`; return the problems."""
        problems: list[str] = []
        for work in self._options.on_turn_end:
            try:
                await work(self, end)
            except (HermesError, OSError) as error:
                log.warning("after the turn: %s", error)
                problems.append(str(error))
        if end.interrupted or not self._options.has_next_turn:
            return problems
        self._compactor.start_in_background(self._history)
        for work in self._options.background:
            task = asyncio.ensure_future(self._run_quietly(work, end))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        return problems

    async def _run_quietly(self, work: AfterTurn, end: TurnFinished) -> None:
        try:
            await work(self, end)
        except HermesError as error:
            log.info("in the background: %s", error)

    async def _end_workspace_turn(self) -> list[str]:
        """Tell the workspace that later changes of files are the user's; return its notices."""
        workspace = self._options.workspace
        return [] if workspace is None else await workspace.turn_ended()

    async def compress(self, focus: str = "") -> Event:
        """Compact the conversation now; `focus` says what matters most."""
        turn = self._begin()
        try:
            event = self._observe(await self._compactor.compact_now(turn, focus))
            self.session_id, self._history = turn.session_id, tuple(turn.messages)
            return event
        finally:
            self._turn = None

    def interrupt(self, reason: str = "stopped by the user", *, by_user: bool = True) -> bool:
        """Stop the running turn. Return False if none runs.

        A stop by the user stores the part of the answer that has arrived. Any other stop leaves
        the turn unfinished, so that it can be resumed.
        """
        if self._turn is None:
            return False
        if not self._turn.cancel.cancelled:
            self._turn.keep_partial_reply = by_user
        self._turn.cancel.cancel(reason)
        return True

    def steer(self, text: str) -> bool:
        """Send `text` to the model after its next tool calls. Return False if no turn runs."""
        if self._turn is None:
            return False
        self.pending.steer(self._options.redact(text))
        return True

    async def close(self) -> None:
        """Cancel the background work."""
        for task in tuple(self._background):
            task.cancel()
        if self._background:
            await asyncio.wait(set(self._background))
        await self._compactor.close()

    def _sanitize(self, message: User) -> User:
        """Remove what breaks JSON, secrets, and tags of recalled memories that leaked."""
        parts = tuple(
            Text(self._options.redact(_MEMORY_TAGS.sub("", clean(part.text))))
            if isinstance(part, Text)
            else part
            for part in message.parts
        )
        return message if parts == message.parts else User(parts)


async def event_stream(work: Callable[[Emit], Awaitable[object]]) -> AsyncGenerator[Event, None]:
    """Yield the events that `work` emits. Closing the iterator cancels the work and waits for its
    cleanup. An exception of the work is raised after its last event."""
    # Three kilobytes less than a queue, which matters to a server with a thousand open streams.
    loop = asyncio.get_running_loop()
    events: list[Event] = []
    news = loop.create_future()

    def wake() -> None:
        if not news.done():
            news.set_result(None)

    def emit(event: Event) -> None:
        events.append(event)
        wake()

    task = asyncio.ensure_future(work(emit))
    task.add_done_callback(lambda _: wake())
    try:
        while events or not task.done():
            await news
            news = loop.create_future()
            arrived = events.copy()
            events.clear()
            for event in arrived:
                yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})

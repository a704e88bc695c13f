"""An agent: one conversation with everything it needs to go on."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from hermes.agent.compaction import Compaction
from hermes.agent.dispatch import Dispatcher
from hermes.agent.loop import Aside, Parts, nothing_beside, run_turn
from hermes.agent.turn import IterationBudget, Notices, Turn
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Notice, TurnFinished
from hermes.core.messages import Assistant, Message, System, Text, User
from hermes.core.model import ModelRequest, ModelSource
from hermes.core.ports import Observer, SessionLog, Workspace
from hermes.store.rows import repair
from hermes.util.text import clean

log = logging.getLogger(__name__)

_MEMORY_TAGS = re.compile(r"</?memory-context\b[^>]*>")

AfterTurn = Callable[["Agent", TurnFinished], Awaitable[None]]


class Circumstances(msgspec.Struct, frozen=True):
    """What an agent may have beside the parts it cannot do without."""

    prefill: tuple[Message, ...] = ()
    """Sent after the system prompt in every request; never stored."""
    ephemeral_system: str = ""
    """Sent behind the system prompt; never stored."""
    aside: Aside = nothing_beside
    """What is sent beside the user's message, for the history before it; never stored."""
    workspace: Workspace | None = None
    clean: Callable[[str], str] = str
    """Takes known secrets out of what the user says and of what is told about a failure."""
    observers: tuple[Observer, ...] = ()
    at_end: tuple[AfterTurn, ...] = ()
    """Done before a turn is over."""
    beside: tuple[AfterTurn, ...] = ()
    """Done after a turn, while the user thinks of the next; nobody waits for it."""
    goes_on: bool = True
    """False when there will be no next turn, so that nothing is prepared for it."""
    budget: IterationBudget | None = None
    """Of a subagent: that of the turn it works for. Else each turn has its own."""
    broken_off: bool = False
    """The session was left without an end."""


PLAIN = Circumstances()


class Agent:
    """Runs turns of one session, one at a time."""

    def __init__(
        self,
        session_id: str,
        system: System,
        history: tuple[Message, ...],
        models: ModelSource,
        dispatcher: Dispatcher,
        log: SessionLog,
        compaction: Compaction,
        *,
        asking: ModelRequest,
        max_iterations: int,
        notices: Notices | None = None,
        circumstances: Circumstances = PLAIN,
    ) -> None:
        """`asking` is what every request has beside its messages: tools, effort, limits."""
        self.session_id = session_id
        self.models = models
        self.notices = notices or Notices()
        self.budget = circumstances.budget or IterationBudget(max_iterations)
        self.tools = asking.tools
        self.asking = asking
        self.system = system
        self.manner = ""
        """How the user wants to be talked to, sent behind the system prompt; never stored."""
        self._history, self._dispatcher, self._log = history, dispatcher, log
        self._compaction = compaction
        self._max_iterations, self._round = max_iterations, circumstances
        self._turn: Turn | None = None
        self._has_run = False
        self._beside: set[asyncio.Task[None]] = set()

    @property
    def history(self) -> tuple[Message, ...]:
        return self._history

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None

    @property
    def broken_off(self) -> bool:
        """Whether the process that ran the last turn was gone before the turn was over."""
        return self._round.broken_off and not self._has_run and self.unfinished

    @property
    def unfinished(self) -> bool:
        """Whether the last turn has no answer: it was stopped, it failed, or it was broken off."""
        if not self._history:
            return False
        last = self._history[-1]
        return not isinstance(last, Assistant) or bool(last.calls)

    async def run(self, message: User) -> AsyncGenerator[Event, None]:
        """The events of the turn that answers `message`, which is stored first."""
        async with aclosing(self._run(self._cleaned(message))) as events:
            async for event in events:
                yield event

    async def resume(self) -> AsyncGenerator[Event, None]:
        """Go on with a turn that was broken off: what its tools did is not done again."""
        if not self.unfinished:
            raise UsageError("there is no turn to go on with")
        async with aclosing(self._run(None)) as events:
            async for event in events:
                yield event

    async def _run(self, question: User | None) -> AsyncGenerator[Event, None]:
        turn = self._begin()
        workspace = self._round.workspace
        if workspace is not None:
            workspace.turn_started(self.session_id, question.text if question else "resumed")
        try:
            parts = Parts(
                self.models.for_turn(),
                self._dispatcher,
                self._log,
                self.notices,
                self._compaction,
                self._round.aside,
            )
            async with aclosing(run_turn(turn, parts, question)) as events:
                async for event in events:
                    self.session_id = turn.session_id
                    if isinstance(event, TurnFinished):
                        for text in await self._keep_files():
                            yield self._seen(Notice(text))
                        event = msgspec.structs.replace(event, error=self._round.clean(event.error))
                        self._history = repair(turn.messages)
                        for text in await self._finish(event):
                            yield self._seen(Notice(text))
                    yield self._seen(event)
        finally:
            await self._keep_files()
            # A stop between a reply and its tools leaves calls without results.
            self.session_id, self._history = turn.session_id, repair(turn.messages)
            self._turn = None

    def _begin(self) -> Turn:
        if self._turn is not None:
            raise UsageError("a turn is already running in this session")
        self._has_run = True
        if self._round.budget is None:
            self.budget.used = 0
        self._turn = Turn(
            self.session_id,
            self._prefix(),
            self._history,
            self.asking,
            self.budget,
            self._max_iterations,
        )
        return self._turn

    def _prefix(self) -> tuple[Message, ...]:
        """What stands before the conversation in every request."""
        texts = (self.system.text, self._round.ephemeral_system, self.manner)
        return System("\n\n".join(filter(None, texts))), *self._round.prefill

    def rewrite(self, history: tuple[Message, ...]) -> None:
        """Go on from another state of the conversation, which is the one in the log."""
        if self._turn is not None:
            raise UsageError("a turn is running in this session", hint="/stop ends it")
        self._history = history

    def _seen(self, event: Event) -> Event:
        for observer in self._round.observers:
            observer.see(event)
        return event

    async def _finish(self, end: TurnFinished) -> list[str]:
        """What belongs to the turn is done now; the rest begins and is not waited for. The result
        is what went wrong."""
        problems: list[str] = []
        for work in self._round.at_end:
            try:
                await work(self, end)
            except (HermesError, OSError) as error:
                log.warning("after the turn: %s", error)
                problems.append(str(error))
        if end.interrupted or not self._round.goes_on:
            return problems
        self._compaction.begin_beside(self._history)
        for work in self._round.beside:
            task = asyncio.ensure_future(self._quietly(work, end))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
        return problems

    async def _quietly(self, work: AfterTurn, end: TurnFinished) -> None:
        try:
            await work(self, end)
        except HermesError as error:
            log.info("beside the conversation: %s", error)

    async def _keep_files(self) -> list[str]:
        """The turn is over: what changes from now on is the user's work."""
        workspace = self._round.workspace
        return [] if workspace is None else await workspace.turn_ended()

    async def compress(self, focus: str = "") -> Event:
        """Compact the conversation now; `focus` says what matters most."""
        turn = self._begin()
        try:
            event = self._seen(await self._compaction.now(turn, focus))
            self.session_id, self._history = turn.session_id, tuple(turn.messages)
            return event
        finally:
            self._turn = None

    def interrupt(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn; False when none runs."""
        if self._turn is None:
            return False
        self._turn.cancel.cancel(reason)
        return True

    def steer(self, text: str) -> bool:
        """Say something into the running turn: the model hears it after its tool calls. False when
        no turn runs."""
        if self._turn is None:
            return False
        self.notices.steer(self._round.clean(text))
        return True

    async def close(self) -> None:
        """End what still goes on beside the conversation."""
        for task in tuple(self._beside):
            task.cancel()
        if self._beside:
            await asyncio.wait(set(self._beside))
        await self._compaction.close()

    def _cleaned(self, message: User) -> User:
        """Without what breaks JSON, secrets, and tags of recalled memories that leaked."""
        parts = tuple(
            Text(self._round.clean(_MEMORY_TAGS.sub("", clean(part.text))))
            if isinstance(part, Text)
            else part
            for part in message.parts
        )
        return message if parts == message.parts else User(parts)

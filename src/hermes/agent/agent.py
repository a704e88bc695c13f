"""An agent: one conversation with everything it needs to go on."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from hermes.agent.dispatch import Dispatcher
from hermes.agent.loop import run_turn
from hermes.agent.notices import Notices
from hermes.agent.turn import Turn
from hermes.core.errors import UsageError
from hermes.core.events import Event, Notice, TurnFinished
from hermes.core.messages import Message, System, Text, User
from hermes.core.model import ModelRequest, ModelSource
from hermes.core.ports import SessionLog, Workspace


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
        *,
        asking: ModelRequest,
        max_iterations: int,
        notices: Notices | None = None,
        workspace: Workspace | None = None,
        clean: Callable[[str], str] = str,
    ) -> None:
        """`asking` is what every request has beside its messages: tools, effort, limits. `clean`
        takes known secrets out of what the user says and of what is told about a failure."""
        self.session_id = session_id
        self.models = models
        self._system, self._history = system, history
        self._dispatcher, self._log = dispatcher, log
        self._asking, self._max_iterations = asking, max_iterations
        self.notices = notices or Notices()
        self._workspace, self._clean = workspace, clean
        self._turn: Turn | None = None

    @property
    def history(self) -> tuple[Message, ...]:
        return self._history

    async def run(self, message: User) -> AsyncGenerator[Event, None]:
        """The events of the turn that answers `message`, which is stored first."""
        if self._turn is not None:
            raise UsageError("a turn is already running in this session")
        turn = self._turn = Turn(
            self.session_id,
            self._system,
            self._history,
            self._cleaned(message),
            self._asking,
            self._max_iterations,
        )
        if self._workspace is not None:
            self._workspace.turn_started(self.session_id, turn.question.text)
        try:
            model = self.models.for_turn()
            steps = run_turn(turn, model, self._dispatcher, self._log, self.notices)
            async with aclosing(steps) as events:
                async for event in events:
                    if isinstance(event, TurnFinished):
                        for text in await self._keep_files():
                            yield Notice(text)
                        event = msgspec.structs.replace(event, error=self._clean(event.error))
                    yield event
        finally:
            await self._keep_files()
            self._history = tuple(turn.messages[1:])
            self._turn = None

    async def _keep_files(self) -> list[str]:
        """The turn is over: what changes from now on is the user's work."""
        return [] if self._workspace is None else await self._workspace.turn_ended(self.session_id)

    def interrupt(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn; False when none runs."""
        if self._turn is None:
            return False
        self._turn.cancel.cancel(reason)
        return True

    def _cleaned(self, message: User) -> User:
        parts = tuple(
            Text(self._clean(part.text)) if isinstance(part, Text) else part
            for part in message.parts
        )
        return message if parts == message.parts else User(parts)

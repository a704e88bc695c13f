"""An agent: one conversation with everything it needs to go on."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from hermes.agent.dispatch import Dispatcher
from hermes.agent.loop import run_turn
from hermes.agent.turn import Turn
from hermes.core.errors import UsageError
from hermes.core.events import Event
from hermes.core.messages import Message, System, User
from hermes.core.model import ModelRequest, ModelSource
from hermes.core.ports import SessionLog


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
    ) -> None:
        """`asking` is what every request has beside its messages: tools, effort, limits."""
        self.session_id = session_id
        self.models = models
        self._system, self._history = system, history
        self._dispatcher, self._log = dispatcher, log
        self._asking, self._max_iterations = asking, max_iterations
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
            message,
            self._asking,
            self._max_iterations,
        )
        try:
            steps = run_turn(turn, self.models.for_turn(), self._dispatcher, self._log)
            async with aclosing(steps) as events:
                async for event in events:
                    yield event
        finally:
            self._history = tuple(turn.messages[1:])
            self._turn = None

    def interrupt(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn; False when none runs."""
        if self._turn is None:
            return False
        self._turn.cancel.cancel(reason)
        return True

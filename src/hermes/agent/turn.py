"""The state of one turn. Made anew for each; nothing of it outlives the turn."""

from collections.abc import Iterable

import msgspec

from hermes.agent.repeats import Repeats
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError
from hermes.core.events import TurnFinished
from hermes.core.messages import Assistant, Message, System, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest
from hermes.core.usage import Usage

WRAP_UP = (
    "This turn cannot use tools any more. Without any tool, say in a few sentences what is "
    "done, what is not, and what you would do next."
)


class Turn:
    """What has been said, asked for and spent since the user's message."""

    def __init__(
        self,
        session_id: str,
        system: System,
        history: Iterable[Message],
        question: User,
        asking: ModelRequest,
        max_iterations: int,
    ) -> None:
        """`asking` is what every request of the turn has beside its messages."""
        self.session_id = session_id
        self.cancel = CancelToken()
        self.question = question
        self.messages: list[Message] = [system, *history, question]
        self._asking = asking
        self.max_iterations = max_iterations
        self.iteration = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.reply: Assistant | None = None
        self.repeats = Repeats()
        self._wrapping_up = False

    def take_step(self) -> bool:
        """Whether another model call is due: for the user's message, for tool results, or, when
        the steps are used up or only the same calls come back, one last time to wrap up without
        tools."""
        if self.reply is not None and not self.calls:
            return False
        self._wrapping_up = self.iteration >= self.max_iterations or self.repeats.hopeless
        self.iteration += 1
        return True

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last reply that are still to be answered."""
        return () if self.reply is None or self._wrapping_up else self.reply.calls

    def request(self) -> ModelRequest:
        if self._wrapping_up:
            messages = (*self.messages, User.say(WRAP_UP))
            return msgspec.structs.replace(self._asking, messages=messages, tools=())
        return msgspec.structs.replace(self._asking, messages=tuple(self.messages))

    def add_reply(self, reply: Assistant, usage: Usage, cost_usd: float | None) -> None:
        self.reply = reply
        self.messages.append(reply)
        self.usage += usage
        known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if known else None

    def add_results(self, results: Iterable[ToolResult]) -> None:
        self.messages.extend(results)

    @property
    def exit_reason(self) -> str:
        if self._wrapping_up:
            return "repeating" if self.repeats.hopeless else "max_iterations"
        if self.reply is None or not self.reply.text.strip():
            return "empty"
        return "truncated" if self.reply.finish_reason == "length" else "answered"

    def finished(self) -> TurnFinished:
        text = self.reply.text.strip() if self.reply else ""
        return self._end(self.exit_reason, text or "(empty)")

    def failed(self, error: HermesError) -> TurnFinished:
        text = self.reply.text.strip() if self.reply else ""
        return self._end(error.exit_reason, text, str(error), error.hint, error.exit_code)

    def _end(
        self, reason: str, text: str, error: str = "", hint: str = "", exit_code: int = 0
    ) -> TurnFinished:
        return TurnFinished(
            self.session_id,
            reason,
            text,
            self.usage,
            self.iteration,
            self.cost_usd,
            error,
            hint,
            exit_code,
        )

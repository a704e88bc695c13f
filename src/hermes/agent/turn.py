"""The state of one turn. Made anew for each; nothing of it outlives the turn."""

from collections.abc import Iterable, Sequence

import msgspec

from hermes.agent.budget import IterationBudget
from hermes.agent.remedies import REMEDIES
from hermes.agent.repeats import Repeats
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError
from hermes.core.events import TurnFinished
from hermes.core.messages import Assistant, Message, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest, Reply
from hermes.core.usage import Usage

WRAP_UP = User.say(
    "This turn cannot use tools any more. Without any tool, say in a few sentences what is "
    "done, what is not, and what you would do next."
)


class Turn:
    """What has been said, asked for and spent since the user's message."""

    def __init__(
        self,
        session_id: str,
        prefix: Sequence[Message],
        history: Iterable[Message],
        asking: ModelRequest,
        budget: IterationBudget,
        max_iterations: int,
    ) -> None:
        """`prefix` stands before the conversation in each request and is no part of it; `asking`
        is what every request has beside its messages."""
        self.session_id = session_id
        self.cancel = CancelToken()
        self.messages: list[Message] = list(history)
        """The conversation, without the prefix."""
        self._prefix, self._asking = tuple(prefix), asking
        self._budget, self._max_iterations = budget, max_iterations
        self.iteration = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.reply: Assistant | None = None
        self.repeats = Repeats()
        self._why_wrapping_up = ""
        self._heard = True
        self._remedied = [0] * len(REMEDIES)
        self._text = ""
        """What the answer begins with when it came in several pieces."""

    def take_step(self) -> bool:
        """Whether another model call is due: for what was heard, for tool results, or, when the
        steps are used up or only the same calls come back, one last time to wrap up without
        tools."""
        if not self._heard and not self.calls:
            return False
        self._why_wrapping_up = self._limit_reached()
        self.iteration += 1
        self._heard = False
        return True

    def _limit_reached(self) -> str:
        if self.repeats.hopeless:
            return "repeating"
        if self.iteration >= self._max_iterations:
            return "max_iterations"
        return "" if self._budget.take() else "iteration_budget"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last reply that are still to be answered."""
        return () if self.reply is None or self._why_wrapping_up else self.reply.calls

    def request(self) -> ModelRequest:
        replace = msgspec.structs.replace
        if self._why_wrapping_up:
            messages = (*self._prefix, *self.messages, WRAP_UP)
            return replace(self._asking, messages=messages, tools=())
        return replace(self._asking, messages=(*self._prefix, *self.messages))

    def hear(self, message: User) -> None:
        """The model has to answer this too."""
        self.messages.append(message)
        self._heard = True

    def remedy(self) -> User | None:
        """What to say to a reply that cannot be the end; None when it can, or nothing helped."""
        if self.reply is None or self.reply.calls or self._why_wrapping_up:
            return None
        for number, remedy in enumerate(REMEDIES):
            if remedy.applies(self.reply):
                self._remedied[number] += 1
                if self._remedied[number] > remedy.most:
                    return None
                self._text += self.reply.text
                return remedy.says
        return None

    def add_reply(self, reply: Reply) -> None:
        self.reply = reply.message
        self.messages.append(reply.message)
        self.usage += reply.usage
        known = self.cost_usd is not None and reply.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (reply.cost_usd or 0.0) if known else None
        if reply.message.calls:
            self._text = ""

    def add_results(self, results: Iterable[ToolResult]) -> None:
        self.messages.extend(results)

    @property
    def text(self) -> str:
        return (self._text + (self.reply.text if self.reply else "")).strip()

    @property
    def exit_reason(self) -> str:
        if self._why_wrapping_up:
            return self._why_wrapping_up
        if not self.text:
            return "empty"
        cut = self.reply is not None and self.reply.finish_reason == "length"
        return "truncated" if cut else "answered"

    def finished(self) -> TurnFinished:
        return self._end(self.exit_reason, self.text or "(empty)")

    def failed(self, error: HermesError) -> TurnFinished:
        return self._end(error.exit_reason, self.text, str(error), error.hint, error.exit_code)

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

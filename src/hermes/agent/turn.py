"""The state of one turn. Made anew for each; nothing of it outlives the turn."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError
from hermes.core.events import TurnFinished
from hermes.core.marks import REMEDY, STEERED
from hermes.core.messages import Assistant, Message, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest, Reply
from hermes.core.usage import Usage

# How many model calls a turn may make, its subagents included.


class IterationBudget:
    """Shared by a turn and the subagents it starts."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def left(self) -> int:
        return max(self.limit - self.used, 0)

    def take(self) -> bool:
        """Use one; False when none is left."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True


# What is said to a model whose reply cannot be the end of a turn.


class Remedy(msgspec.Struct, frozen=True):
    applies: Callable[[Assistant], bool]
    most: int
    """Times in a turn."""
    says: User
    """Stored like any other message, so that the prefix stays what it was."""


def _cut_off(reply: Assistant) -> bool:
    return reply.finish_reason == "length" and bool(reply.text.strip())


def _says_nothing(reply: Assistant) -> bool:
    return not reply.text.strip()


REMEDIES = (
    Remedy(
        _cut_off,
        3,
        User.say(
            f"{REMEDY}was cut off at the length limit. Go on exactly where it stopped, without "
            "repeating anything.]"
        ),
    ),
    Remedy(
        _says_nothing,
        2,
        User.say(
            f"{REMEDY}had no text and no tool call. Answer the user, or call the tool you need.]"
        ),
    ),
)
"""For replies without tool calls, the first that applies."""


# Stops a model that makes the same failing call again and again.

MOST_FAILURES = 2
"""Times the same call may fail in the same way before it is not run any more."""
MOST_SAME = 4
"""Times in a row the same call may bring the same result."""
MOST_BLOCKED = 3
"""Blocked calls after which the turn goes on without tools."""
MOST_UNUSABLE = 6
"""Calls in a row that could not be run at all, for a name or arguments that are wrong."""

Key = tuple[str, str]


class Repeats:
    """The calls of one turn and what they brought."""

    def __init__(self) -> None:
        self._failures: dict[Key, int] = {}
        self._outcomes: dict[Key, str] = {}
        self._last: Key | None = None
        self._same = 0
        self._blocked = 0
        self._unusable = 0

    @property
    def hopeless(self) -> bool:
        """The model does not take the hint."""
        return self._blocked >= MOST_BLOCKED or self._unusable >= MOST_UNUSABLE

    def refuses(self, call: ToolCall) -> str:
        """Why `call` is not run once more; "" when it may."""
        key = _key(call)
        if self._failures.get(key, 0) >= MOST_FAILURES:
            times = f"failed {self._failures[key]} times in the same way"
        elif key == self._last and self._same >= MOST_SAME:
            times = f"brought the same result {self._same} times in a row"
        else:
            return ""
        self._blocked += 1
        return f"not run again: this very call {times}"

    def note_unusable(self) -> None:
        """A call named no tool, or its arguments made no sense."""
        self._unusable += 1

    def note(self, call: ToolCall, result: ToolResult, *, changes: bool) -> None:
        """`changes`: the tool can change something, after which a failed call may succeed."""
        if not result.failed:
            self._unusable = 0
        key = _key(call)
        same = self._outcomes.get(key) == result.text
        if changes and not result.failed and not same:
            self._failures.clear()
        if result.failed:
            self._failures[key] = self._failures.get(key, 0) + 1 if same else 1
        else:
            self._failures.pop(key, None)
        self._same = self._same + 1 if same and key == self._last else 1
        self._outcomes[key], self._last = result.text, key


def _key(call: ToolCall) -> Key:
    return call.name, "".join(call.arguments.split())


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


# What the agent should hear of while it works: news of background processes, and what the user
# says into the running turn.


class Notices:
    """Collects texts until the agent can hear them: after its tool calls, before it is done with
    its answer (what the user said), or in a turn of its own (news).

    Used in the event loop's thread.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._there = asyncio.Event()
        self.steered = False
        """Whether the user said something that is not heard yet."""

    def add(self, text: str) -> None:
        self._texts.append(text)
        self._there.set()

    def steer(self, text: str) -> None:
        """Something the user says into the running turn."""
        self.add(f"{STEERED}\n{text}")
        self.steered = True

    def take(self) -> User | None:
        """All of them as one message; None when there is none."""
        texts, self._texts = self._texts, []
        self._there.clear()
        self.steered = False
        return User.say("\n\n".join(texts)) if texts else None

    def unsay(self) -> None:
        """Forget what the user said and nobody heard: it is told in another way."""
        self._texts = [text for text in self._texts if not text.startswith(STEERED)]
        self.steered = False

    async def wait(self) -> None:
        """Returns as soon as there is something to take."""
        await self._there.wait()

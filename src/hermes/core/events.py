"""The one stream that comes out of the agent. Every surface is a renderer of it.

Each event encodes to a JSON object whose `type` names it, so `hermes chat --json` is this union
written line by line.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from hermes.core.messages import ToolCall
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta, Usage


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started"):
    session_id: str
    model: str
    provider: str


class ModelCalled(msgspec.Struct, frozen=True, tag="model_called"):
    """A request is about to be sent."""

    iteration: int


class TextFinished(msgspec.Struct, frozen=True, tag="text_finished"):
    """The whole text of one reply, after its deltas."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True, tag="tool_started"):
    call: ToolCall


class ToolOutput(msgspec.Struct, frozen=True, tag="tool_output"):
    """Output while the tool still runs."""

    call_id: str
    text: str


class ToolFinished(msgspec.Struct, frozen=True, tag="tool_finished"):
    call_id: str
    name: str
    result: str
    failed: bool
    seconds: float


class ApprovalScope(msgspec.Struct, frozen=True):
    """A set of calls that one answer can allow, for the session or permanently."""

    value: str  #: Names it in an answer: `command`, `arguments`, `folder` or `everywhere`.
    label: str  #: Says which calls it covers.
    confirm: bool = False  #: The person must confirm it a second time.


class ApprovalAsked(msgspec.Struct, frozen=True, tag="approval_asked"):
    call_id: str
    tool: str
    subject: str  #: What would be done: the command, the path, the address. Never shortened.
    reason: str
    scopes: tuple[ApprovalScope, ...] = ()
    """What can be allowed for longer, narrowest first. Empty: the call can be allowed once only."""
    effect: str = ""  #: A value of `core.tool.Effect`; decides whose approval is needed.
    folder: str = ""  #: Where it would happen.
    destructive: bool = False

    def find_scope(self, name: str) -> ApprovalScope | None:
        """Return an offered scope by its value; the narrowest for "", None if it is not offered."""
        return next((each for each in self.scopes if name in ("", each.value)), None)


class ApprovalAnswered(msgspec.Struct, frozen=True, tag="approval_answered"):
    call_id: str
    answer: str  #: `once`, `session`, `always` or `deny`.
    scope: str = ""  #: The value of the `ApprovalScope` that `session` or `always` covers.


class QuestionAsked(msgspec.Struct, frozen=True, tag="question_asked"):
    """The agent wants to know something of the user before it goes on."""

    call_id: str
    question: str
    choices: tuple[str, ...] = ()
    """Answers to choose from; the user may always say something else."""


class QuestionAnswered(msgspec.Struct, frozen=True, tag="question_answered"):
    call_id: str
    answer: str  #: "" when the user did not answer in time.


class CompactionStarted(msgspec.Struct, frozen=True, tag="compaction_started"):
    """The conversation has so many tokens that it is made shorter now."""

    tokens: int
    threshold: int


class Compacted(msgspec.Struct, frozen=True, tag="compacted"):
    """The conversation was made shorter and goes on in a session of its own, or in the same one if
    only tool results were shortened."""

    session_id: str  #: The session in which it goes on.
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    seconds: float
    summary_model: str  #: Empty when no model was needed, or none could be asked.


class SubagentStarted(msgspec.Struct, frozen=True, tag="subagent_started"):
    call_id: str  #: The call of `delegate_task`.
    child: int  #: Which of its tasks, from 0.
    session_id: str
    goal: str


class SubagentProgress(msgspec.Struct, frozen=True, tag="subagent_progress"):
    call_id: str
    child: int
    text: str  #: One line: what it does now.


class SubagentFinished(msgspec.Struct, frozen=True, tag="subagent_finished"):
    call_id: str
    child: int
    status: str
    seconds: float
    api_calls: int


class UsageReported(msgspec.Struct, frozen=True, tag="usage_reported"):
    """After each model call; `cost_usd` is None when the price is not known."""

    usage: Usage
    cost_usd: float | None = None
    model: str = ""  #: The one that answered.
    provider: str = ""
    finish_reason: str = ""
    seconds: float = 0.0


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """Something the user should know that is not part of the answer."""

    text: str


class TurnFinished(msgspec.Struct, frozen=True, tag="turn_finished"):
    """Always the last event of a turn."""

    session_id: str
    exit_reason: str
    """`answered`, `truncated`, `empty`, `max_iterations`, `iteration_budget`, `repeating`,
    `interrupted`, `budget_spent` or `failed`."""
    text: str
    usage: Usage
    api_calls: int
    cost_usd: float | None = None
    error: str = ""
    hint: str = ""
    exit_code: int = 0

    @property
    def completed(self) -> bool:
        return self.exit_reason == "answered"

    @property
    def partial(self) -> bool:
        return self.exit_reason == "truncated"

    @property
    def interrupted(self) -> bool:
        return self.exit_reason == "interrupted"

    @property
    def failed(self) -> bool:
        return bool(self.error) and not self.interrupted


Event = (
    TurnStarted | ModelCalled | TextDelta | ReasoningDelta | TextFinished | ToolStarted | ToolOutput
    | ToolFinished | ApprovalAsked | ApprovalAnswered | QuestionAsked | QuestionAnswered | Retrying
    | FellBack | CompactionStarted | Compacted | SubagentStarted | SubagentProgress
    | SubagentFinished | UsageReported | Notice | TurnFinished
)  # fmt: skip
Emit = Callable[[Event], None]  #: Takes an event of a turn. It neither blocks nor raises.


def to_json(event: Event) -> bytes:
    return msgspec.json.encode(event)


def from_json(data: bytes) -> Event:
    event: Event = _decoder.decode(data)
    return event


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Event)

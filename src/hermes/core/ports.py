"""Protocols that the agent needs from its surroundings; `app` supplies the implementations."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from hermes.core.events import ApprovalAsked, Event, QuestionAsked
from hermes.core.model import ModelRequest, Reply, Usage
from hermes.core.tool import ToolContext


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A person's answer to `ApprovalAsked`."""

    value: Literal["once", "session", "always", "deny"]
    scope: str = ""  #: The value of an offered `ApprovalScope`; "" is the narrowest.
    confirmed: bool = False  #: The person confirmed the scope a second time.

    ONCE: ClassVar["ApprovalAnswer"]
    SESSION: ClassVar["ApprovalAnswer"]
    ALWAYS: ClassVar["ApprovalAnswer"]
    DENY: ClassVar["ApprovalAnswer"]


ApprovalAnswer.ONCE = ApprovalAnswer("once")
ApprovalAnswer.SESSION = ApprovalAnswer("session")
ApprovalAnswer.ALWAYS = ApprovalAnswer("always")
ApprovalAnswer.DENY = ApprovalAnswer("deny")


class Approver(Protocol):
    """Asks a person for approval. Without a person the answer is `DENY`."""

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer: ...


class Clarifier(Protocol):
    """Asks a person a question of the agent."""

    async def clarify(self, question: QuestionAsked) -> str:
        """Return the person's answer, free text or one of the choices."""


AskSecret = Callable[[str, str, str], Awaitable[bool]]
"""Asks the user for a secret without showing it, and stores it in .env. Takes the name of the
variable, a prompt and a help text; returns False if the user skipped it."""


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the current time, with a time zone."""

    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class SessionInfo(msgspec.Struct, frozen=True):
    id: str
    source: str
    model: str
    started_at: float
    title: str = ""
    system_prompt: str = ""
    message_count: int = 0
    tool_call_count: int = 0
    parent_id: str = ""
    """The session that this one branched from, continues after a compaction, or works for."""
    user_id: str = ""
    ended_at: float | None = None
    end_reason: str = ""
    archived_at: float | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    last_active: float = 0.0
    preview: str = ""  #: The beginning of what the user said first.


class Ledger(Protocol):
    """The spending of all processes that share the store."""

    async def spent_usd(
        self, session_id: str = "", *, since: float | None = None, user_id: str = ""
    ) -> float:
        """Return US dollars: of a session including its subagents and continuations, of a user,
        or of all sessions. Calls without a known price count as zero."""


class Auxiliary(Protocol):
    """Models for auxiliary tasks: titles, summaries, images, approvals, ..."""

    async def ask(self, task: str, request: ModelRequest) -> Reply:
        """Return the reply for `task`; its cost is recorded. Raises a `ProviderError`."""


class ChildTask(msgspec.Struct, frozen=True):
    """A task for a subagent, which does not see the parent's conversation."""

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()  #: Empty: those of the parent that a subagent may have.
    role: Literal["leaf", "orchestrator"] = "leaf"  #: An orchestrator may start subagents itself.
    max_iterations: int | None = None
    background: bool = False  #: It does not belong to a turn of the parent, and cannot ask a user.


class ChildResult(msgspec.Struct, frozen=True):
    status: Literal["completed", "failed", "interrupted", "timeout"]
    summary: str  #: The subagent's last words; when it did not finish, what it had found by then.
    session_id: str = ""
    api_calls: int = 0
    seconds: float = 0.0
    error: str = ""


class Spawner(Protocol):
    """Runs subagents for `delegate_task`; results are in the order of the tasks."""

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        """Run all tasks, concurrently as far as allowed. If cancelled, return the results so far
        at once. Raises `ToolError` for tasks that cannot be started."""

    def start(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[str]:
        """Start the tasks in the background and return their ids. The result of each arrives in the
        conversation as a message. Raises `ToolError` if they cannot be started."""


class Observer(Protocol):
    """Sees every event of a session's turns when it happens. It must be fast and must not raise."""

    def see(self, event: Event) -> None: ...


class AttachedFile(msgspec.Struct, frozen=True):
    """A private copy of a file for sending."""

    name: str
    path: str
    size: int
    redacted: bool = False  #: Keys or passwords were removed from the copy.


class Attachments(Protocol):
    """The files that a conversation may send: those of its own workplace."""

    async def attach(self, path: str, max_bytes: int) -> AttachedFile:
        """Copy a file for sending. `path` is absolute, in the conversation's workplace. Raises
        `AttachmentRefused`."""


class Outbox(Protocol):
    """Sends messages to chats for `send_message`, cron and background work."""

    async def send(
        self,
        target: str,
        text: str,
        *,
        key: str = "",
        kind: str = "send",
        attachments: Attachments | None = None,
    ) -> str:
        """Store a message for sending and return the id of the delivery. `target` is written as
        `telegram`, `telegram:-100:17` or `discord:#name`. The same `key` is sent once. Files
        that the text names are sent as far as `attachments` allows; without it the text is sent
        unchanged. Raises `UsageError` for an unknown target."""

    async def delivered(self, delivery: str) -> str:
        """Return the state: `pending`, `sent`, `failed: …`, `uncertain: …`."""

    async def targets(self) -> list[str]:
        """Return the possible targets, one line each."""


class Scheduler(Protocol):
    """Manages scheduled jobs for the tool `cronjob`, the API and chats. Jobs are the records of
    jobs.json, found by id, or by an unambiguous name. Raises `UsageError`."""

    async def create(self, wanted: dict[str, Any]) -> dict[str, Any]: ...
    async def list(self) -> list[dict[str, Any]]: ...
    async def get(self, job: str) -> dict[str, Any]: ...
    async def update(self, job: str, changes: dict[str, Any]) -> dict[str, Any]: ...
    async def pause(self, job: str) -> dict[str, Any]: ...
    async def resume(self, job: str) -> dict[str, Any]: ...
    async def remove(self, job: str) -> dict[str, Any]: ...
    async def run(self, job: str) -> dict[str, Any]:
        """Run the job at the next tick, in addition to its schedule."""


class Trainer(Protocol):
    """Training runs for the tools `rl_*`. Results are records for the model, without secrets.
    Raises `UsageError`."""

    async def environments(self) -> list[dict[str, Any]]:
        """Return what a model can be trained on. No code of an environment runs."""

    async def select(self, name: str) -> dict[str, Any]:
        """Choose the environment of the next run and return its configuration."""

    async def config(self) -> dict[str, Any]: ...
    async def edit(self, field: str, value: Any) -> dict[str, Any]: ...
    async def describe_start(self) -> str:
        """Return what `start` would run, for the question to the user."""

    async def start(self) -> dict[str, Any]:
        """Start a run of the chosen environment, which outlives this process."""

    async def status(self, run_id: str) -> dict[str, Any]:
        """Return state and metrics of a run. A run that goes on is shown every 30 minutes."""

    async def stop(self, run_id: str) -> dict[str, Any]:
        """End a run with everything it started, and return its state."""

    async def results(self, run_id: str) -> dict[str, Any]: ...
    async def runs(self) -> list[dict[str, Any]]: ...
    async def test_inference(
        self, num_steps: int, group_size: int, models: Sequence[str]
    ) -> dict[str, Any]:
        """Run a few rollouts of the chosen environment with each model, without training."""


# The hooks of plugins and shell commands, and their possible results.


class HookName(StrEnum):
    PRE_TOOL_CALL = "pre_tool_call"
    POST_TOOL_CALL = "post_tool_call"
    TRANSFORM_TOOL_RESULT = "transform_tool_result"
    TRANSFORM_TERMINAL_OUTPUT = "transform_terminal_output"
    PRE_LLM_CALL = "pre_llm_call"
    POST_LLM_CALL = "post_llm_call"
    PRE_API_REQUEST = "pre_api_request"
    POST_API_REQUEST = "post_api_request"
    ON_SESSION_START = "on_session_start"
    ON_SESSION_END = "on_session_end"
    ON_SESSION_FINALIZE = "on_session_finalize"
    ON_SESSION_RESET = "on_session_reset"
    SUBAGENT_STOP = "subagent_stop"
    PRE_GATEWAY_DISPATCH = "pre_gateway_dispatch"
    PRE_APPROVAL = "pre_approval"
    POST_APPROVAL = "post_approval"


class Hooks(Protocol):
    """Calls every listener of a hook with keyword arguments.

    A listener that raises is reported and skipped; it never breaks a turn.
    """

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        """Return the results of the listeners in order, without None."""

    def listens(self, name: HookName) -> bool:
        """Return whether there are listeners, so that arguments need not be prepared otherwise."""


class NoHooks:
    """Hooks without listeners."""

    async def fire(self, name: HookName, **details: Any) -> list[Any]:  # noqa: ARG002 - there are no listeners
        return []

    def listens(self, name: HookName) -> bool:  # noqa: ARG002 - there are no listeners
        return False

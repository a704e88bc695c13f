"""Protocols the agent needs from the world; `app` fills them in."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from hermes.core.events import ApprovalAsked, Event, QuestionAsked
from hermes.core.messages import Message
from hermes.core.model import ModelCall, ModelRequest, Reply, Usage
from hermes.core.tool import ToolContext


class Consent(StrEnum):
    """A person's answer to `ApprovalAsked`."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"


class Approver(Protocol):
    """Puts a question to whoever is there. Nobody there means `DENY`."""

    async def ask(self, question: ApprovalAsked) -> Consent: ...


class Clarifier(Protocol):
    """Puts a question of the agent to whoever is there."""

    async def clarify(self, question: QuestionAsked) -> str:
        """The person's answer, in their words or as one of the choices."""
        ...


class SecretAsker(Protocol):
    """Asks the user for a secret without showing it to anybody, and keeps it in .env."""

    async def ask(self, name: str, prompt: str, help: str) -> bool:  # noqa: A002 - as skills call it
        """Whether the variable `name` has a value now; False when the user skipped it."""
        ...


class Clock(Protocol):
    def now(self) -> datetime:
        """The current time, with a time zone."""
        ...

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
    """The session this one branched off, went on from after a compaction, or works for."""
    user_id: str = ""
    ended_at: float | None = None
    end_reason: str = ""
    archived_at: float | None = None
    usage: Usage = Usage()
    cost_usd: float | None = None
    last_active: float = 0.0
    preview: str = ""  #: The beginning of what the user said first.


class SessionLog(Protocol):
    """The append-only log of conversations. A returned call means the data is on disk."""

    async def create(
        self,
        session_id: str,
        *,
        source: str,
        model: str,
        system_prompt: str,
        parent_id: str = "",
        user_id: str = "",
    ) -> None:
        """Raises `StoreError` when the session exists already."""
        ...

    async def append(self, session_id: str, message: Message, call: ModelCall | None = None) -> int:
        """The message's number in the log, and the `call` it came of recorded with it. A finished
        session is open again."""
        ...

    async def messages(self, session_id: str) -> tuple[Message, ...]:
        """The conversation: what was logged, without what was undone or compacted."""
        ...

    async def info(self, session_id: str) -> SessionInfo: ...
    async def latest(self, source: str = "") -> SessionInfo | None:
        """The session somebody was active in last, of any source or of one."""
        ...

    async def record_call(self, session_id: str, call: ModelCall) -> None: ...
    async def finish(self, session_id: str, exit_reason: str) -> None: ...


class Ledger(Protocol):
    """What was spent, by every process that shares the store."""

    async def spent_usd(
        self, session_id: str = "", *, since: float | None = None, user_id: str = ""
    ) -> float:
        """US dollars: of a session with its subagents and what went on after a compaction, of a
        user, or of all sessions. Calls whose price is not known count nothing."""
        ...


class Auxiliary(Protocol):
    """Models for work beside the conversation: titles, summaries, images, approval, ..."""

    async def ask(self, task: str, request: ModelRequest) -> Reply:
        """The reply for `task`, paid for and recorded. Raises a `ProviderError`."""
        ...


class Workspace(Protocol):
    """The files a session works on, kept so that a turn can be undone."""

    def turn_started(self, session_id: str, reason: str) -> None: ...
    async def before_change(self, call: ToolContext) -> None:
        """Returns when the state before the change is safe, or cannot be made so."""
        ...

    async def turn_ended(self) -> list[str]:
        """What the user should know of it; called again, nothing happens."""
        ...


class ChildTask(msgspec.Struct, frozen=True):
    """A piece of work for a subagent, which knows nothing of the conversation it comes from."""

    goal: str
    context: str = ""
    toolsets: tuple[str, ...] = ()
    """Empty: those of the parent, as far as a subagent may have them."""
    role: Literal["leaf", "orchestrator"] = "leaf"  #: An orchestrator may start subagents itself.
    max_iterations: int | None = None


class ChildResult(msgspec.Struct, frozen=True):
    status: Literal["completed", "failed", "interrupted", "timeout"]
    summary: str  #: The subagent's last words; when it did not finish, what it had found by then.
    session_id: str = ""
    api_calls: int = 0
    seconds: float = 0.0
    error: str = ""


class Spawner(Protocol):
    """Runs subagents for `delegate_task`; results keep the order of the tasks."""

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        """All of them, side by side as far as allowed. Cancelled, it still returns at once what
        there is. Raises `ToolError` for tasks that cannot be started."""
        ...


class Observer(Protocol):
    """Sees every event of a session's turns as it happens. It must be quick and must not raise."""

    def see(self, event: Event) -> None: ...


class AttachedFile(msgspec.Struct, frozen=True):
    """A private copy of a file, made for sending it."""

    name: str
    path: str
    size: int
    redacted: bool = False  #: Keys or passwords were removed from the copy.


class Attachments(Protocol):
    """The files that a conversation may send: those of its own workplace."""

    async def attach(self, path: str, max_bytes: int) -> AttachedFile:
        """Copy a file for sending. `path` is absolute, in the conversation's workplace. Raises
        `AttachmentRefused`."""
        ...


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
        """The delivery's id, once it is kept for sending. `target` is as people write it:
        `telegram`, `telegram:-100:17`, `discord:#name`. The same `key` is sent once. Files that
        the text names are sent as far as `attachments` allows; without it the text is sent as
        it is. Raises `UsageError` for a target that is not there."""
        ...

    async def delivered(self, delivery: str) -> str:
        """What became of it: `pending`, `sent`, `failed: …`, `uncertain: …`."""
        ...

    async def targets(self) -> list[str]:
        """Where messages can go, a line each."""
        ...


class Scheduler(Protocol):
    """Keeps scheduled jobs for the tool `cronjob`, the API and chats. Jobs are the records of
    jobs.json, found by id, or by name where that is clear. Raises `UsageError`."""

    async def create(self, wanted: dict[str, Any]) -> dict[str, Any]: ...
    async def list(self) -> list[dict[str, Any]]: ...
    async def get(self, job: str) -> dict[str, Any]: ...
    async def update(self, job: str, changes: dict[str, Any]) -> dict[str, Any]: ...
    async def pause(self, job: str) -> dict[str, Any]: ...
    async def resume(self, job: str) -> dict[str, Any]: ...
    async def remove(self, job: str) -> dict[str, Any]: ...
    async def run(self, job: str) -> dict[str, Any]:
        """Have it run at the next tick, beside its schedule."""
        ...


# The moments plugins and shell hooks can attach to, and what they may answer.


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
    """Calls every listener of a moment with keyword arguments.

    A listener that raises is reported and skipped; it never breaks a turn.
    """

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        """What the listeners answered, in order, without the Nones."""
        ...

    def listens(self, name: HookName) -> bool:
        """Whether anybody does, so that nothing is prepared for nobody."""
        ...


class NoHooks:
    """No listener anywhere."""

    async def fire(self, name: HookName, **details: Any) -> list[Any]:  # noqa: ARG002 - nobody listens
        return []

    def listens(self, name: HookName) -> bool:  # noqa: ARG002 - nobody listens
        return False

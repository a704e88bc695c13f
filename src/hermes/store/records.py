"""The values that the store takes and returns, other than messages and sessions themselves."""

from typing import Any, Literal

import msgspec

from hermes.core.messages import Message
from hermes.core.model import Usage

Record = dict[str, Any]
"""A whole session as JSON-ready data: the columns of its row, `messages`, `model_calls` and
`projection`. The form of JSON Lines exports."""


# Sessions and their log


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message with its row in the log."""

    id: int
    timestamp: float
    message: Message
    token_count: int | None = None


class LogEntry(msgspec.Struct, frozen=True):
    """A message of any session, as `SessionStore.log_since` returns it."""

    session_id: str
    source: str
    logged: LoggedMessage


class Change(msgspec.Struct, frozen=True):
    """A change of a conversation other than a new message."""

    reason: str  #: `undo`, `branch`, `compression` or `shortening`.
    session_id: str  #: The resulting session: the same one for an undo, else the new one.


PROGRAM_SOURCES = ("tool", "batch")  #: Sources of sessions that programs started.
HIDDEN_SOURCES = (*PROGRAM_SOURCES, "subagent")
"""Sources that lists of sessions hide by default. A subagent's session belongs to the conversation
that started it, so a search of whole conversations includes it."""


class SessionFilter(msgspec.Struct, frozen=True):
    """Selects sessions. The default is all that are not archived."""

    sources: tuple[str, ...] = ()  #: Empty: any.
    exclude_sources: tuple[str, ...] = ()
    archived: bool | None = False  #: None: archived or not.
    started_before: float | None = None
    ended_only: bool = False
    has_messages: bool = False  #: Only sessions with messages, and those that continue another.
    title: str = ""  #: Only titles that contain each of these words, in any case.
    newest_only: bool = False  #: Without sessions that a compaction continued in another one.
    limit: int = 20
    offset: int = 0


class UsageLine(msgspec.Struct, frozen=True):
    """The sum of the model calls of one kind."""

    task: str  #: `main` or the auxiliary task.
    model: str
    provider: str
    tool: str  #: The tool that made the calls, or empty.
    is_subagent: bool
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int  #: Calls whose price is not known; their cost is not in `cost_usd`.


class StoreSizes(msgspec.Struct, frozen=True):
    """Bytes that a store occupies."""

    total: int
    unused: int = 0
    search: int = 0


class StoreStats(msgspec.Struct, frozen=True):
    where: str
    sessions: int
    archived: int
    messages: int
    tool_calls: int
    usage: Usage
    cost_usd: float
    by_source: dict[str, int]  #: Sessions of each source, the most frequent first.
    by_role: dict[str, int]
    oldest: float | None
    newest: float | None
    sizes: StoreSizes


# Search


class SearchRequest(msgspec.Struct, frozen=True):
    query: str  #: In the language of `store.search`.
    sources: tuple[str, ...] = ()
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    exclude_sessions: tuple[str, ...] = ()
    user: str = ""  #: Only sessions of this user; empty: of all.
    since: float | None = None
    until: float | None = None
    limit: int = 20
    offset: int = 0
    tolerant: bool = False
    """Also find other endings, typing errors and conversations with only some of the words, unless
    the query has operators and except where enough messages have all words."""
    also: tuple[str, ...] = ()  #: Other words for the same, of less weight, for a tolerant search.


MatchKind = Literal["exact", "similar", "some"]
"""Whether the message has all words of the query; or the conversation has them all, perhaps with
other endings or without a typing error; or only some of them."""
MATCH_NOTES: dict[MatchKind, str] = {
    "exact": "",
    "similar": "No message has exactly these words; these conversations have similar ones.",
    "some": "No conversation has all of the words; these have some.",
}
"""What to tell the user about the best hit of a search."""

Candidate = tuple[int, str, str, float, float]
"""A message that matches: id, session, role, timestamp and relevance (higher is better). A plain
tuple, because hundreds are ranked for each page that is shown."""


class Neighbour(msgspec.Struct, frozen=True):
    """The message before or after a hit, cut to 200 characters."""

    role: str
    content: str


class SearchHit(msgspec.Struct, frozen=True):
    id: int
    session_id: str
    role: str
    timestamp: float
    snippet: str  #: A part of the text with `>>>` and `<<<` around the matches.
    context: tuple[Neighbour, ...]
    source: str
    model: str
    session_started: float
    title: str = ""
    match: MatchKind = "exact"
    share: float = 1.0
    """Share of the query that the conversation has, weighted by the rarity of the words."""


# Activity since a moment, for statistics


class ActiveSession(msgspec.Struct, frozen=True):
    """A session with messages in the period."""

    source: str
    model: str
    first: float  #: Time of the first message in the period.
    last: float  #: Time of the last message in the period.
    messages: int
    end_reason: str = ""


class ToolSum(msgspec.Struct, frozen=True):
    name: str
    calls: int
    failed: int


class CallSum(msgspec.Struct, frozen=True):
    """The sum of the model calls of one source, model and task."""

    source: str  #: Empty when the session was deleted.
    model: str
    provider: str
    task: str
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class QuarterHour(msgspec.Struct, frozen=True):
    """A quarter of an hour with activity."""

    start: int  #: Seconds since the epoch.
    messages: int
    tokens: int = 0
    cost_usd: float = 0.0


class Activity(msgspec.Struct, frozen=True):
    """What happened since a moment; oldest first, or most frequent first."""

    sessions: tuple[ActiveSession, ...] = ()
    tools: tuple[ToolSum, ...] = ()
    calls: tuple[CallSum, ...] = ()
    quarter_hours: tuple[QuarterHour, ...] = ()


# Inbox, outbox and chats of the gateway. Times are seconds since the epoch.

InState = Literal["new", "begun", "working", "answered", "dropped", "unreadable"]
"""`begun`: a command that must not run twice may have taken effect. `unreadable`: set aside."""
OutState = Literal["pending", "sending", "streaming", "sent", "failed", "uncertain"]


class InboxItem(msgspec.Struct, frozen=True):
    """A message as it came in."""

    platform: str
    account: str  #: Which of our accounts on the platform received it; "" when there is only one.
    message_key: str  #: The platform's id of it, unique in the account.
    session_key: str
    event: bytes  #: The whole message, as JSON.


class InboxRow(msgspec.Struct, frozen=True):
    """A stored `InboxItem` and its state."""

    id: int
    platform: str
    account: str
    message_key: str
    session_key: str
    event: bytes
    state: InState
    received_at: float
    session_id: str = ""
    """The session of its turn, once the turn has started; for a command the session it was given
    in."""
    log_after: int = 0
    """The newest message id of that session when the turn started. For a command that was begun:
    the newest change id of any session (see `SessionStore.changes`)."""
    answered_by: int = 0  #: The message whose answer also answers this one; 0 for its own answer.


class OutboxItem(msgspec.Struct, frozen=True):
    """A message that is to be sent."""

    key: str  #: Unique: the same key is never stored twice.
    platform: str
    account: str
    target: bytes  #: The recipient, as JSON.
    lane: str  #: Rows of one lane are sent in order.
    body: bytes  #: The message, as JSON.
    kind: str = "reply"
    inbox_id: int = 0
    due_at: float = 0.0


class OutboxRow(msgspec.Struct, frozen=True):
    """A stored `OutboxItem` and its state."""

    id: int
    key: str
    platform: str
    account: str
    target: bytes
    lane: str
    body: bytes
    kind: str
    inbox_id: int
    state: OutState
    attempts: int
    due_at: float  #: While the row is `sending`: when that began.
    created_at: float
    platform_id: str = ""
    """The platform's id of the message, once it is there. A pending row that has one was shown
    while streaming: the message is edited, not sent."""
    after_id: str = ""
    """The newest known message of the chat when this one was sent; used to find it again."""
    error: str = ""  #: The last error. While the row is `sending`: the process that sends it.
    sent_at: float | None = None


class ChatRow(msgspec.Struct, frozen=True):
    """The session of a chat, and its lease."""

    session_key: str
    session_id: str
    origin: bytes  #: Where its messages come from, as JSON.
    started_at: float
    last_active: float
    owner: str = ""  #: The process that holds the lease.
    lease_until: float = 0.0
    fence: int = 0  #: Grows with each new owner; writes of an earlier one are refused.


class ChatLease(msgspec.Struct, frozen=True):
    """The right of a process to work on a chat. `LeaseLost` is raised where it is not the newest
    lease of the chat any more."""

    session_key: str
    owner: str
    fence: int


class GatewayRow(msgspec.Struct, frozen=True):
    """A gateway that shares the store, or did until a while ago."""

    owner: str
    platforms: bytes  #: The names of the platforms that it serves, as JSON.
    lease_until: float


class GatewayBeat(msgspec.Struct, frozen=True):
    """The gateways at one moment."""

    now: float  #: By the clock of the store, which all gateways share.
    gateways: tuple[GatewayRow, ...] = ()

    def is_alive(self, gateway: GatewayRow) -> bool:
        return gateway.lease_until > self.now


class QueueCount(msgspec.Struct, frozen=True):
    """The messages of a platform in both queues, by state, and the time of the last ones."""

    platform: str
    waiting_in: int = 0
    waiting_out: int = 0
    failed_out: int = 0
    uncertain_out: int = 0
    last_in: float | None = None
    last_out: float | None = None
    unreadable_in: int = 0


class ApprovalRow(msgspec.Struct, frozen=True):
    """One step of an approval."""

    id: int
    token: str  #: Names the approval.
    kind: Literal["asked", "answer", "resolved"]
    """`answer` is what another process than the asking one answered; `resolved` what counts."""
    body: bytes  #: JSON, or for an `answer` the words that follow `/approve`.
    owner: str  #: The process that stored it.
    created_at: float
    valid_until: float  #: Of `asked`: extended by the process that asks while it waits.


# Scheduled runs

RunState = Literal[
    "claimed", "running", "ok", "failed", "silent", "skipped", "missed", "lost", "undelivered"
]
ENDED_STATES = ("ok", "failed", "silent", "skipped", "missed", "lost", "undelivered")
"""`lost`: the process that ran it died, and it was not run again. `undelivered`: it has an answer,
which did not reach all of its chats."""


class Run(msgspec.Struct, frozen=True):
    job_id: str
    instant: float  #: When it was due, seconds since the epoch.
    state: RunState
    owner: str = ""
    lease_until: float = 0.0
    fence: int = 0  #: Grows with each claim; reports of an earlier owner are refused.
    attempt: int = 1
    claimed_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    session_id: str = ""
    output: str = ""  #: The file with its output.
    error: str = ""
    delivered: str = ""  #: The result of its delivery, for the user.


class StoredJob(msgspec.Struct, frozen=True):
    """A job in a store that several machines share; on one machine jobs are in jobs.json."""

    id: str
    record: bytes  #: JSON.
    version: int


# Responses of the API server

MAX_RESPONSES = 100


class StoredResponse(msgspec.Struct, frozen=True):
    id: str
    body: bytes  #: The response as it was sent, JSON.
    session_id: str
    conversation: str = ""
    previous_id: str = ""
    created_at: float = 0.0

"""What goes into the store and comes out of it, beside messages."""

from typing import Any, Literal, Protocol

import msgspec

from hermes.core.messages import Message
from hermes.core.usage import Usage

Record = dict[str, Any]
"""A whole session as JSON-ready data: the columns of its row, `messages`, `model_calls` and
`projection`. The form of JSON Lines exports."""


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message with what the log knows of it."""

    id: int
    timestamp: float
    message: Message
    token_count: int | None = None


class Change(msgspec.Struct, frozen=True):
    """Something that made another conversation of one: an undo, a branch, a compaction."""

    reason: str
    """`undo`, `branch` or `compression`."""
    session_id: str
    """What it made: the session itself for an undo, else the new one."""


class SessionFilter(msgspec.Struct, frozen=True):
    """Which sessions. The default is all that are not archived."""

    sources: tuple[str, ...] = ()
    """Empty: any."""
    exclude_sources: tuple[str, ...] = ()
    archived: bool | None = False
    """None: both kinds."""
    started_before: float | None = None
    ended_only: bool = False
    limit: int = 20
    offset: int = 0


class SearchRequest(msgspec.Struct, frozen=True):
    query: str
    """In the query language of `store.search.language`."""
    sources: tuple[str, ...] = ()
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    limit: int = 20
    offset: int = 0


Candidate = tuple[int, str, str, float, float]
"""A message that matches, with what ranking needs: id, session, role, timestamp and relevance, of
which more is better. A plain row, since hundreds are ranked for each page that is shown."""


class Neighbour(msgspec.Struct, frozen=True):
    """The message before or after a hit, cut to 200 characters."""

    role: str
    content: str


class SearchHit(msgspec.Struct, frozen=True):
    id: int
    session_id: str
    role: str
    timestamp: float
    snippet: str
    """A piece of the text with `>>>` and `<<<` around what matched."""
    context: tuple[Neighbour, ...]
    source: str
    model: str
    session_started: float
    title: str = ""


class UsageLine(msgspec.Struct, frozen=True):
    """What the calls of one kind used together."""

    task: str
    """`main` or the auxiliary task."""
    model: str
    provider: str
    tool: str
    """The tool that made the calls, or empty."""
    is_subagent: bool
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int
    """Calls whose price is not known; their cost is not in `cost_usd`."""


class Sizes(msgspec.Struct, frozen=True):
    """What a store takes up, in bytes."""

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
    by_source: dict[str, int]
    """Sessions of each source, the most frequent first."""
    by_role: dict[str, int]
    oldest: float | None
    newest: float | None
    sizes: Sizes


class ActiveSession(msgspec.Struct, frozen=True):
    """A session in which something was said."""

    source: str
    model: str
    first: float
    """When the first message of the time in question came ..."""
    last: float
    """... and when the last one."""
    messages: int
    end_reason: str = ""


class ToolSum(msgspec.Struct, frozen=True):
    name: str
    calls: int
    failed: int


class CallSum(msgspec.Struct, frozen=True):
    """Model calls of one source, model and task together."""

    source: str
    """Empty when the session was deleted."""
    model: str
    provider: str
    task: str
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class Moment(msgspec.Struct, frozen=True):
    """A quarter of an hour in which something happened."""

    start: int
    """Seconds since the epoch."""
    messages: int
    tokens: int = 0
    cost_usd: float = 0.0


class Activity(msgspec.Struct, frozen=True):
    """What went on since a moment; oldest first, or most frequent first."""

    sessions: tuple[ActiveSession, ...] = ()
    tools: tuple[ToolSum, ...] = ()
    calls: tuple[CallSum, ...] = ()
    moments: tuple[Moment, ...] = ()


# Messages of chats on their way in and out, kept so that a crash neither loses nor repeats one.
#
# In: a message is kept before the platform is told that we have it, so it is there after a crash.
# Out: what is to be sent is kept in one transaction with the end of the work it answers. A row is
# `sending` before the platform is asked and `sent` after, so a crash leaves no doubt about which
# rows are in doubt.

InState = Literal["new", "begun", "working", "answered", "dropped", "unreadable"]
"""`begun`: a command that must not be done twice may have taken effect. `unreadable`: set aside."""
OutState = Literal["pending", "sending", "streaming", "sent", "failed", "uncertain"]


class Received(msgspec.Struct, frozen=True):
    """A message as it came in."""

    platform: str
    account: str
    """Which of our accounts on the platform got it; "" when there is only one."""
    message_key: str
    """The platform's name for it, unique in the account."""
    session_key: str
    event: bytes
    """The whole message, as JSON."""


class InboxRow(msgspec.Struct, frozen=True):
    id: int
    platform: str
    account: str
    message_key: str
    session_key: str
    event: bytes
    state: InState
    received_at: float
    session_id: str = ""
    """The conversation its turn runs in, once it does; of a command the one it was given in."""
    log_after: int = 0
    """The newest message of that conversation when the turn began; of a command that was begun the
    newest change of any conversation (see `port.Conversations.changes`)."""
    answered_by: int = 0
    """The message whose answer was for this one too; 0 for its own."""


class Draft(msgspec.Struct, frozen=True):
    """A message that is to be sent."""

    key: str
    """Unique: the same key is never kept twice."""
    platform: str
    account: str
    target: bytes
    """Where to, as JSON."""
    lane: str
    """What keeps its order: rows of one lane are sent one after the other."""
    body: bytes
    """The message, as JSON."""
    kind: str = "reply"
    inbox_id: int = 0
    due_at: float = 0.0


class OutboxRow(msgspec.Struct, frozen=True):
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
    due_at: float
    """While it is being sent: since when."""
    created_at: float
    platform_id: str = ""
    """The platform's name for it, once it is there. One that is pending and has it was shown while
    it grew: it is to be edited, not sent."""
    after_id: str = ""
    """The newest message of the chat we knew of when it was sent; for finding it again."""
    error: str = ""
    """What went wrong last. While it is being sent: who sends it."""
    sent_at: float | None = None


class ChatRow(msgspec.Struct, frozen=True):
    """Which conversation a chat is in."""

    session_key: str
    session_id: str
    origin: bytes
    """Where its messages come from, as JSON."""
    started_at: float
    last_active: float
    owner: str = ""
    """The process that works on it."""
    lease_until: float = 0.0
    fence: int = 0
    """Grows with each new owner; work of an earlier one is refused."""


class Fenced(msgspec.Struct, frozen=True):
    """The right to work on a chat, as it was given."""

    session_key: str
    owner: str
    fence: int


class MailCount(msgspec.Struct, frozen=True):
    """How much is on its way, by platform and state, and when something last moved."""

    platform: str
    waiting_in: int = 0
    waiting_out: int = 0
    failed_out: int = 0
    uncertain_out: int = 0
    last_in: float | None = None
    last_out: float | None = None
    unreadable_in: int = 0


class Inbox(Protocol):
    """Messages on their way in."""

    async def receive(self, message: Received, now: float) -> int | None:
        """Its number; None when it was kept before."""
        ...

    async def waiting(self, session_key: str) -> tuple[InboxRow, ...]:
        """New and unfinished messages of a chat, oldest first."""
        ...

    async def chats_waiting(self, platforms: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Session keys that have new or unfinished messages, the oldest first."""
        ...

    async def begin(self, row_ids: tuple[int, ...], session_id: str, right: Fenced) -> int:
        """Mark messages as worked on; the newest log number of the session, kept with them. Called
        again, it begins anew."""
        ...

    async def begin_once(self, row_id: int, session_id: str) -> None:
        """Mark a command as begun, before it does what must not be done twice in the conversation
        `session_id`: whoever finds the mark asks what became of it. Refused without the right under
        which the caller writes (see `fencing`)."""
        ...

    async def answer(
        self,
        row_ids: tuple[int, ...],
        drafts: tuple[Draft, ...],
        right: Fenced | None,
        now: float,
        *,
        adopt: int = 0,
        state: InState = "answered",
    ) -> tuple[int, ...]:
        """In one transaction: the messages are done, and what answers them is to be sent. The last
        of `row_ids` is the one answered; the others point to it. `adopt` is an outbox row that was
        shown while it grew: it becomes the first draft (its key, body and kind), is pending and
        stays where it is in its lane and on the platform, to be edited. Without a draft it is sent
        as it was shown. One that does not grow any more is left alone, and the draft is a new row.
        Whatever else grew for these messages stays as it was shown; when `adopt` is 0, the stream
        of the message that is answered is adopted. The numbers of the outbox rows."""
        ...


class Outbox(Protocol):
    """Messages on their way out."""

    async def put(self, drafts: tuple[Draft, ...], now: float) -> tuple[int, ...]:
        """Keep messages for sending; a key that is known gives the row that has it."""
        ...

    async def due(
        self, platforms: tuple[tuple[str, str], ...], now: float, limit: int = 100
    ) -> tuple[OutboxRow, ...]:
        """The first pending row of each lane of these (platform, account), if its time has come and
        no earlier row of the lane is pending, sending or streaming."""
        ...

    async def in_doubt(self, platforms: tuple[tuple[str, str], ...]) -> tuple[OutboxRow, ...]:
        """Rows that are `sending`, oldest first: asked about after a start."""
        ...

    async def sending(
        self, row_id: int, after_id: str = "", *, by: str = "", now: float = 0.0
    ) -> bool:
        """About to be sent, by this process. False when it is not pending any more: somebody else
        took it."""
        ...

    async def put_sending(self, draft: Draft, after_id: str, *, by: str, now: float) -> bool:
        """`put` and `sending` in one: nobody ever sees it waiting. False when its key is known."""
        ...

    async def streaming(self, row_id: int, platform_id: str) -> None:
        """It is there and will still grow; once the message it is for is answered, it is sent as it
        was shown. One that became the answer meanwhile is left alone: it is to be edited."""
        ...

    async def stream_of(self, inbox_id: int) -> OutboxRow | None:
        """The row that is `streaming` as the answer of a message, if there is one."""
        ...

    async def sent(self, row_id: int, platform_id: str, now: float) -> None:
        """It is there, whatever was thought of it before. What is sent does not change any more."""
        ...

    async def again(self, row_id: int, due_at: float, error: str, *, anew: bool = False) -> None:
        """It is not there: try again then. `anew`: what is there of it cannot be changed any more,
        so it is sent, not edited."""
        ...

    async def given_up(self, row_id: int, state: OutState, error: str) -> None:
        """`failed` or `uncertain`."""
        ...

    async def outbox_row(self, key: str) -> OutboxRow | None: ...


class Chats(Protocol):
    """Which conversation a chat is in, and who works on it."""

    async def chat(self, session_key: str) -> ChatRow | None: ...

    async def chats(self, *, idle_since: float | None = None) -> tuple[ChatRow, ...]:
        """All, or those without activity since then."""
        ...

    async def bind(self, session_key: str, session_id: str, origin: bytes, now: float) -> None:
        """The chat is in this conversation from now on; `origin` b"" leaves what is known. Raises
        `StoreConflict` when another chat is in it and worked on just now."""
        ...

    async def claim_chat(
        self,
        session_key: str,
        owner: str,
        now: float,
        until: float,
        *,
        dead: tuple[str, ...] = (),
    ) -> Fenced | None:
        """The right to work on a chat: when nobody has it, its lease has run out, the owner is
        named in `dead`, or it is ours already. None when another has it, or works on another chat
        that is in the same conversation: one conversation is written by one chat at a time."""
        ...

    async def renew(self, owner: str, until: float) -> int:
        """Keep the leases of a process; how many chats."""
        ...

    async def release(self, right: Fenced) -> None:
        """Let others have the chat at once. Of a right that was lost nothing is left to give back,
        and nothing is raised."""
        ...

    async def forget_chat(self, right: Fenced) -> None:
        """There will be no more of this chat. Of a right that was lost nothing happens."""
        ...

    async def chat_owners(self) -> tuple[str, ...]:
        """Who holds chats at present."""
        ...


class Mail(Inbox, Outbox, Chats, Protocol):
    """Times are seconds since 1970 and come from the caller. `LeaseLost` is raised where a `Fenced`
    right is no longer the chat's newest."""

    async def mail_counts(self) -> tuple[MailCount, ...]: ...

    async def clean_mail(self, before: float) -> int:
        """Forget messages that were done before then, in and out; how many. One whose answer is
        still on its way is kept."""
        ...


# Scheduled work, claimed so that each instant of a job is run once, by whoever comes first.

RunState = Literal["claimed", "running", "ok", "failed", "silent", "skipped", "missed", "lost"]
OVER = ("ok", "failed", "silent", "skipped", "missed", "lost")
"""`lost`: the process that ran it died, and it was not run again."""


class Run(msgspec.Struct, frozen=True):
    """One instant of a job."""

    job_id: str
    instant: float
    """When it was due, seconds since 1970."""
    state: RunState
    owner: str = ""
    lease_until: float = 0.0
    fence: int = 0
    """Grows with each claim; what an earlier owner reports is refused."""
    attempt: int = 1
    claimed_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    session_id: str = ""
    output: str = ""
    """The file with what came out of it."""
    error: str = ""
    delivered: str = ""
    """What became of its delivery, for people."""


class StoredJob(msgspec.Struct, frozen=True):
    """A job of a shared store; on one machine they are in jobs.json."""

    id: str
    record: bytes
    """JSON."""
    version: int


class Claims(Protocol):
    """`LeaseLost` is raised where the fence is no longer the run's newest."""

    async def claim_run(
        self, job_id: str, instant: float, owner: str, now: float, until: float
    ) -> Run | None:
        """The run, ours now; None when the instant was claimed before, by whomever."""
        ...

    async def note_run(self, run: Run) -> bool:
        """Write down an instant that is not run (`missed`, `skipped`); False when it is known."""
        ...

    async def take_over(
        self, owner: str, now: float, until: float, *, dead: tuple[str, ...] = ()
    ) -> tuple[Run, ...]:
        """Unfinished runs of others whose lease has run out or whose owner is named in `dead`, ours
        now: a higher fence, one more attempt, the state as it was left. Earliest first."""
        ...

    async def report_run(self, run: Run) -> None:
        """Keep the new state of a run that is ours."""
        ...

    async def renew_runs(self, owner: str, until: float) -> int: ...

    async def run_owners(self) -> tuple[str, ...]:
        """Who holds unfinished runs at present."""
        ...

    async def runs(self, job_id: str = "", limit: int = 50) -> tuple[Run, ...]:
        """The history, newest first."""
        ...

    async def clean_runs(self, before: float, keep: int = 100) -> int:
        """Forget runs that ended before then, but keep the newest of each job; how many."""
        ...

    async def jobs(self) -> tuple[StoredJob, ...]: ...

    async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
        """Keep a job: None makes a new one, else `version` must be the stored one. The new version.
        Raises `StoreConflict` when somebody else changed or made it meanwhile."""
        ...

    async def drop_job(self, job_id: str) -> bool: ...


# Answers of the API server that may be asked for again, and requests that must not run twice.

MOST_RESPONSES = 100


class StoredResponse(msgspec.Struct, frozen=True):
    id: str
    body: bytes
    """The answer as it was given, JSON."""
    session_id: str
    conversation: str = ""
    previous_id: str = ""
    created_at: float = 0.0


class Responses(Protocol):
    async def save_response(self, response: StoredResponse, now: float) -> None:
        """Keep it, also in the place of one with its id; the ones used longest ago beyond
        `MOST_RESPONSES` are forgotten."""
        ...

    async def response(self, response_id: str, now: float) -> StoredResponse | None:
        """It counts as used now."""
        ...

    async def last_response(self, conversation: str, now: float) -> StoredResponse | None:
        """The newest of a named conversation; it counts as used now."""
        ...

    async def drop_response(self, response_id: str) -> bool: ...

"""Messages of chats on their way in and out, kept so that a crash neither loses nor repeats one.

In: a message is kept before the platform is told that we have it, so it is there after a crash.
Out: what is to be sent is kept in one transaction with the end of the work it answers. A row is
`sending` before the platform is asked and `sent` after, so a crash leaves no doubt about which
rows are in doubt.
"""

from typing import Literal, Protocol

import msgspec

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

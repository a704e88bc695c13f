"""Messages of chats on their way in and out."""

from functools import partial

from hermes.store.facets.access import Access
from hermes.store.fencing import fenced
from hermes.store.mail import (
    ChatRow,
    Draft,
    Fenced,
    InboxRow,
    InState,
    MailCount,
    OutboxRow,
    OutState,
    Received,
)
from hermes.store.queries import chats, inbox, mail, outbox

_SMALL = 8000
"""Bytes of a message that takes a fraction of a millisecond to keep."""


class Inbox(Access):
    async def receive(self, message: Received, now: float) -> int | None:
        work = partial(inbox.receive, message=message, now=now)
        return await self.write(work, is_small=len(message.event) <= _SMALL)

    async def waiting(self, session_key: str) -> tuple[InboxRow, ...]:
        return await self.read(partial(inbox.waiting, session_key=session_key))

    async def chats_waiting(self, platforms: tuple[str, ...] = ()) -> tuple[str, ...]:
        return await self.read(partial(inbox.chats_waiting, platforms=platforms))

    async def begin(self, row_ids: tuple[int, ...], session_id: str, right: Fenced) -> int:
        work = partial(inbox.begin, row_ids=row_ids, session_id=session_id, right=right)
        return await self.write(work, is_small=True)

    async def begin_once(self, row_id: int, session_id: str) -> None:
        work = partial(inbox.begin_once, row_id=row_id, session_id=session_id)
        await self.write(fenced(work), is_small=True)

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
        work = partial(inbox.answer, row_ids=row_ids, drafts=drafts, right=right)
        return await self.write(
            partial(work, now=now, adopt=adopt, state=state), is_small=_is_small(drafts)
        )


class Outbox(Access):
    async def put(self, drafts: tuple[Draft, ...], now: float) -> tuple[int, ...]:
        work = partial(outbox.put, drafts=drafts, now=now)
        return await self.write(work, is_small=_is_small(drafts))

    async def due(
        self, platforms: tuple[tuple[str, str], ...], now: float, limit: int = 100
    ) -> tuple[OutboxRow, ...]:
        return await self.read(partial(outbox.due, platforms=platforms, now=now, limit=limit))

    async def in_doubt(self, platforms: tuple[tuple[str, str], ...]) -> tuple[OutboxRow, ...]:
        return await self.read(partial(outbox.in_doubt, platforms=platforms))

    async def sending(
        self, row_id: int, after_id: str = "", *, by: str = "", now: float = 0.0
    ) -> bool:
        work = partial(outbox.sending, row_id=row_id, after_id=after_id, by=by, now=now)
        return await self.write(work, is_small=True)

    async def put_sending(self, draft: Draft, after_id: str, *, by: str, now: float) -> bool:
        work = partial(outbox.put_sending, draft=draft, after_id=after_id, by=by, now=now)
        return await self.write(work, is_small=_is_small((draft,)))

    async def streaming(self, row_id: int, platform_id: str) -> None:
        work = partial(outbox.streaming, row_id=row_id, platform_id=platform_id)
        await self.write(work, is_small=True)

    async def stream_of(self, inbox_id: int) -> OutboxRow | None:
        return await self.read(partial(outbox.stream_of, inbox_id=inbox_id))

    async def sent(self, row_id: int, platform_id: str, now: float) -> None:
        work = partial(outbox.sent, row_id=row_id, platform_id=platform_id, now=now)
        await self.write(work, is_small=True)

    async def again(self, row_id: int, due_at: float, error: str, *, anew: bool = False) -> None:
        work = partial(outbox.again, row_id=row_id, due_at=due_at, error=error, anew=anew)
        await self.write(work, is_small=True)

    async def given_up(self, row_id: int, state: OutState, error: str) -> None:
        work = partial(outbox.given_up, row_id=row_id, state=state, error=error)
        await self.write(work, is_small=True)

    async def outbox_row(self, key: str) -> OutboxRow | None:
        return await self.read(partial(outbox.with_key, key=key))


class Chats(Access):
    async def chat(self, session_key: str) -> ChatRow | None:
        return await self.read(partial(chats.chat, session_key=session_key))

    async def chats(self, *, idle_since: float | None = None) -> tuple[ChatRow, ...]:
        return await self.read(partial(chats.chats, idle_since=idle_since))

    async def bind(self, session_key: str, session_id: str, origin: bytes, now: float) -> None:
        work = partial(chats.bind, session_key=session_key, session_id=session_id)
        await self.write(partial(work, origin=origin, now=now), is_small=True)

    async def claim_chat(
        self,
        session_key: str,
        owner: str,
        now: float,
        until: float,
        *,
        dead: tuple[str, ...] = (),
    ) -> Fenced | None:
        work = partial(chats.claim, session_key=session_key, owner=owner, now=now)
        return await self.write(partial(work, until=until, dead=dead), is_small=True)

    async def renew(self, owner: str, until: float) -> int:
        return await self.write(partial(chats.renew, owner=owner, until=until), is_small=True)

    async def release(self, right: Fenced) -> None:
        await self.write(partial(chats.release, right=right), is_small=True)

    async def forget_chat(self, right: Fenced) -> None:
        await self.write(partial(chats.forget, right=right), is_small=True)

    async def chat_owners(self) -> tuple[str, ...]:
        return await self.read(chats.owners)


class Mail(Inbox, Outbox, Chats):
    """`mail.Mail`."""

    async def mail_counts(self) -> tuple[MailCount, ...]:
        return await self.read(mail.counts)

    async def clean_mail(self, before: float) -> int:
        return await self.write(partial(mail.clean, before=before))


def _is_small(drafts: tuple[Draft, ...]) -> bool:
    return sum(len(draft.body) for draft in drafts) <= _SMALL

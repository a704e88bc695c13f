"""`port.SessionStore` over an engine: the same for both databases."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from hermes.core.errors import ConfigError
from hermes.core.messages import Message
from hermes.core.ports import SessionInfo
from hermes.core.usage import ModelCall
from hermes.store.backend import Backend, Database
from hermes.store.engine import Engine
from hermes.store.port import Progress, unheard
from hermes.store.queries import lifecycle, mail, messages, runs, sessions, usage
from hermes.store.records import (
    Activity,
    Change,
    ChatRow,
    Draft,
    Fenced,
    InboxRow,
    InState,
    LoggedMessage,
    MailCount,
    OutboxRow,
    OutState,
    Received,
    Record,
    Run,
    SearchHit,
    SearchRequest,
    SessionFilter,
    StoredJob,
    StoredResponse,
    StoreStats,
    UsageLine,
)
from hermes.store.rows import to_row
from hermes.store.search import search
from hermes.store.sqlite.backend import SqliteBackend

# Work on the store without holding up the event loop.

T = TypeVar("T")


class Access:
    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._now = now

    def close(self) -> None:
        """Finish pending writes and let go of the store. May be called again."""
        self._engine.close()

    async def write(self, work: Callable[[Database], T], *, is_small: bool = False) -> T:
        """The result of `work`, once it is committed. A small one takes a fraction of a
        millisecond."""
        return await self._engine.write_from_loop(work, is_small=is_small)

    async def read(self, work: Callable[[Database], T]) -> T:
        return await self._engine.read_from_loop(work)


# Finding sessions and what was said in them.


class Catalogue(Access):
    """`port.Catalogue`."""

    async def info(self, session_id: str) -> SessionInfo:
        return await self.read(partial(sessions.info, session_id=session_id))

    async def latest(self, source: str = "") -> SessionInfo | None:
        return await self.read(partial(sessions.latest, source=source))

    async def sessions(self, which: SessionFilter) -> tuple[SessionInfo, ...]:
        return await self.read(partial(sessions.select, which=which))

    async def resolve(self, name: str, *, exactly: bool = False) -> SessionInfo:
        def work(database: Database) -> SessionInfo:
            return sessions.info(database, sessions.resolve(database, name, exactly=exactly))

        return await self.read(work)

    async def set_title(self, session_id: str, title: str) -> str:
        return await self.write(partial(sessions.set_title, session_id=session_id, title=title))

    async def next_title(self, title: str) -> str:
        return await self.read(partial(sessions.next_title, title=title))

    async def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        find = partial(search, self._engine.backend)
        return await self.read(partial(find, request=request, now=self._now()))


# Taking sessions out and in, and looking after the store itself.


class Upkeep(Access):
    """`port.Upkeep`."""

    async def export(self, session_id: str) -> Record:
        return await self.read(partial(lifecycle.export, session_id=session_id))

    async def restore(self, record: Record) -> str:
        restore = partial(lifecycle.restore, self._engine.backend)
        return await self.write(partial(restore, record=record, now=self._now()))

    async def delete(self, session_id: str) -> None:
        await self.write(partial(lifecycle.delete, session_id=session_id))

    async def prune(self, which: SessionFilter) -> tuple[str, ...]:
        ended = msgspec.structs.replace(which, ended_only=True, archived=False)
        return await self.write(partial(lifecycle.prune, which=ended))

    async def set_archived(self, session_id: str, archived: bool) -> None:
        when = self._now() if archived else None
        await self.write(partial(sessions.archive, session_id=session_id, when=when))

    async def stats(self) -> StoreStats:
        return await self.read(partial(lifecycle.stats, self._engine.backend))

    async def activity(self, *, since: float, sources: Sequence[str] = ()) -> Activity:
        return await self.read(partial(usage.activity, since=since, sources=tuple(sources)))

    async def reindex(self, progress: Progress = unheard) -> int:
        return await self.write(partial(self._engine.backend.reindex, progress=progress))

    async def vacuum(self) -> None:
        await self.read(self._engine.backend.vacuum)

    async def backup(self, target: Path, progress: Progress = unheard) -> None:
        await self.read(partial(self._engine.backend.backup, target=target, progress=progress))


# Scheduled work.


class Claims(Access):
    """`claims.Claims`."""

    async def claim_run(
        self, job_id: str, instant: float, owner: str, now: float, until: float
    ) -> Run | None:
        work = partial(runs.claim, job_id=job_id, instant=instant, owner=owner)
        return await self.write(partial(work, now=now, until=until), is_small=True)

    async def note_run(self, run: Run) -> bool:
        return await self.write(partial(runs.note, run=run), is_small=True)

    async def take_over(
        self, owner: str, now: float, until: float, *, dead: tuple[str, ...] = ()
    ) -> tuple[Run, ...]:
        return await self.write(
            partial(runs.take_over, owner=owner, now=now, until=until, dead=dead), is_small=True
        )

    async def report_run(self, run: Run) -> None:
        await self.write(partial(runs.report, run=run), is_small=True)

    async def renew_runs(self, owner: str, until: float) -> int:
        return await self.write(partial(runs.renew, owner=owner, until=until), is_small=True)

    async def run_owners(self) -> tuple[str, ...]:
        return await self.read(runs.owners)

    async def runs(self, job_id: str = "", limit: int = 50) -> tuple[Run, ...]:
        return await self.read(partial(runs.runs, job_id=job_id, limit=limit))

    async def clean_runs(self, before: float, keep: int = 100) -> int:
        return await self.write(partial(runs.clean, before=before, keep=keep))

    async def jobs(self) -> tuple[StoredJob, ...]:
        return await self.read(runs.jobs)

    async def save_job(self, job_id: str, record: bytes, version: int | None) -> int:
        work = partial(runs.save_job, job_id=job_id, record=record, version=version)
        return await self.write(work, is_small=True)

    async def drop_job(self, job_id: str) -> bool:
        return await self.write(partial(runs.drop_job, job_id=job_id), is_small=True)


# Answers of the API server that may be asked for again.


class Responses(Access):
    """`responses.Responses`."""

    async def save_response(self, response: StoredResponse, now: float) -> None:
        await self.write(partial(runs.save, response=response, now=now))

    async def response(self, response_id: str, now: float) -> StoredResponse | None:
        return await self.write(partial(runs.get, response_id=response_id, now=now))

    async def last_response(self, conversation: str, now: float) -> StoredResponse | None:
        return await self.write(partial(runs.last, conversation=conversation, now=now))

    async def drop_response(self, response_id: str) -> bool:
        return await self.write(partial(runs.drop, response_id=response_id))


# Who writes a conversation: whoever lost the right to its chat writes nothing more into it.

_right: ContextVar[Fenced | None] = ContextVar("hermes_right", default=None)


@contextmanager
def under(right: Fenced) -> Iterator[None]:
    """What is written to conversations in here, also by tasks that are started in here, is refused
    with `LeaseLost` once the right is not the chat's newest any more."""
    token = _right.set(right)
    try:
        yield
    finally:
        _right.reset(token)


def fenced(work: Callable[[Database], T]) -> Callable[[Database], T]:
    """`work`, in one transaction with the question whether the caller may."""
    right = _right.get()
    if right is None:
        return work

    def insisting(database: Database) -> T:
        mail.insist(database, right)
        return work(database)

    return insisting


# The log, what its conversations are, and how they go on.

SMALL_PROMPT = 32_000
"""Characters. A longer one takes more than a fraction of a millisecond; none is indexed."""


class Conversations(Access):
    """`port.Conversations`."""

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
        new = sessions.NewSession(session_id, source, model, system_prompt, parent_id, user_id)
        work = partial(sessions.insert, new=new, now=self._now())
        await self.write(work, is_small=len(system_prompt) <= SMALL_PROMPT)

    async def append(self, session_id: str, message: Message, call: ModelCall | None = None) -> int:
        row, now = to_row(message), self._now()
        backend, count = self._engine.backend, messages.calls_in(message)

        def work(database: Database) -> int:
            id_ = messages.append(backend, database, session_id, row, calls=count, now=now)
            if call is not None:
                usage.record(database, session_id=session_id, call=call, now=now)
            return id_

        return await self.write(fenced(work), is_small=messages.is_small(row))

    async def messages(self, session_id: str) -> tuple[Message, ...]:
        return await self.read(partial(messages.conversation, session_id=session_id))

    async def entries(self, session_id: str) -> tuple[LoggedMessage | Message, ...]:
        return tuple(await self.read(partial(messages.entries, session_id=session_id)))

    async def log(self, session_id: str) -> tuple[LoggedMessage, ...]:
        return await self.read(partial(messages.log, session_id=session_id))

    async def record_call(self, session_id: str, call: ModelCall) -> None:
        record = partial(usage.record, session_id=session_id, call=call, now=self._now())
        await self.write(record, is_small=True)

    async def usage(
        self, session_id: str = "", *, since: float | None = None
    ) -> tuple[UsageLine, ...]:
        return await self.read(partial(usage.lines, session_id=session_id, since=since or 0.0))

    async def spent_usd(
        self, session_id: str = "", *, since: float | None = None, user_id: str = ""
    ) -> float:
        find = partial(usage.spent, session_id=session_id, since=since or 0.0, user_id=user_id)
        return await self.read(find)

    async def finish(self, session_id: str, exit_reason: str) -> None:
        work = partial(sessions.end, session_id=session_id, reason=exit_reason, now=self._now())
        await self.write(fenced(work), is_small=True)

    async def reopen(self, session_id: str) -> None:
        await self.write(partial(sessions.change, session_id=session_id, statement=sessions.REOPEN))

    async def branch(self, session_id: str, new_id: str, *, up_to: int | None = None) -> None:
        work = partial(lifecycle.branch, session_id=session_id, new_id=new_id, up_to=up_to)
        await self.write(fenced(partial(work, now=self._now())))

    async def compact(
        self, session_id: str, new_id: str, conversation: Sequence[LoggedMessage | Message]
    ) -> None:
        work = partial(lifecycle.compact, conversation=conversation, now=self._now())
        await self.write(fenced(partial(work, session_id=session_id, new_id=new_id)))

    async def undo(self, session_id: str, turns: int = 1) -> str:
        work = partial(lifecycle.undo, session_id=session_id, turns=turns, now=self._now())
        return await self.write(fenced(work))

    async def undone(self, session_id: str) -> tuple[Message, ...]:
        return await self.read(partial(messages.undone, session_id=session_id))

    async def changes(self, session_id: str, after: int) -> tuple[Change, ...]:
        return await self.read(partial(messages.changes, session_id=session_id, after=after))

    async def ancestors(self, session_id: str) -> tuple[SessionInfo, ...]:
        return await self.read(partial(lifecycle.ancestors, session_id=session_id))

    async def descendants(self, session_id: str) -> tuple[SessionInfo, ...]:
        return await self.read(partial(lifecycle.descendants, session_id=session_id))


# Messages of chats on their way in and out.

_SMALL = 8000
"""Bytes of a message that takes a fraction of a millisecond to keep."""


class Inbox(Access):
    async def receive(self, message: Received, now: float) -> int | None:
        work = partial(mail.receive, message=message, now=now)
        return await self.write(work, is_small=len(message.event) <= _SMALL)

    async def waiting(self, session_key: str) -> tuple[InboxRow, ...]:
        return await self.read(partial(mail.waiting, session_key=session_key))

    async def chats_waiting(self, platforms: tuple[str, ...] = ()) -> tuple[str, ...]:
        return await self.read(partial(mail.chats_waiting, platforms=platforms))

    async def begin(self, row_ids: tuple[int, ...], session_id: str, right: Fenced) -> int:
        work = partial(mail.begin, row_ids=row_ids, session_id=session_id, right=right)
        return await self.write(work, is_small=True)

    async def begin_once(self, row_id: int, session_id: str) -> None:
        work = partial(mail.begin_once, row_id=row_id, session_id=session_id)
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
        work = partial(mail.answer, row_ids=row_ids, drafts=drafts, right=right)
        return await self.write(
            partial(work, now=now, adopt=adopt, state=state), is_small=_is_small(drafts)
        )


class Outbox(Access):
    async def put(self, drafts: tuple[Draft, ...], now: float) -> tuple[int, ...]:
        work = partial(mail.put, drafts=drafts, now=now)
        return await self.write(work, is_small=_is_small(drafts))

    async def due(
        self, platforms: tuple[tuple[str, str], ...], now: float, limit: int = 100
    ) -> tuple[OutboxRow, ...]:
        return await self.read(partial(mail.due, platforms=platforms, now=now, limit=limit))

    async def in_doubt(self, platforms: tuple[tuple[str, str], ...]) -> tuple[OutboxRow, ...]:
        return await self.read(partial(mail.in_doubt, platforms=platforms))

    async def sending(
        self, row_id: int, after_id: str = "", *, by: str = "", now: float = 0.0
    ) -> bool:
        work = partial(mail.sending, row_id=row_id, after_id=after_id, by=by, now=now)
        return await self.write(work, is_small=True)

    async def put_sending(self, draft: Draft, after_id: str, *, by: str, now: float) -> bool:
        work = partial(mail.put_sending, draft=draft, after_id=after_id, by=by, now=now)
        return await self.write(work, is_small=_is_small((draft,)))

    async def streaming(self, row_id: int, platform_id: str) -> None:
        work = partial(mail.streaming, row_id=row_id, platform_id=platform_id)
        await self.write(work, is_small=True)

    async def stream_of(self, inbox_id: int) -> OutboxRow | None:
        return await self.read(partial(mail.stream_of, inbox_id=inbox_id))

    async def sent(self, row_id: int, platform_id: str, now: float) -> None:
        work = partial(mail.sent, row_id=row_id, platform_id=platform_id, now=now)
        await self.write(work, is_small=True)

    async def again(self, row_id: int, due_at: float, error: str, *, anew: bool = False) -> None:
        work = partial(mail.again, row_id=row_id, due_at=due_at, error=error, anew=anew)
        await self.write(work, is_small=True)

    async def given_up(self, row_id: int, state: OutState, error: str) -> None:
        work = partial(mail.given_up, row_id=row_id, state=state, error=error)
        await self.write(work, is_small=True)

    async def outbox_row(self, key: str) -> OutboxRow | None:
        return await self.read(partial(mail.with_key, key=key))


class Chats(Access):
    async def chat(self, session_key: str) -> ChatRow | None:
        return await self.read(partial(mail.chat, session_key=session_key))

    async def chats(self, *, idle_since: float | None = None) -> tuple[ChatRow, ...]:
        return await self.read(partial(mail.chats, idle_since=idle_since))

    async def bind(self, session_key: str, session_id: str, origin: bytes, now: float) -> None:
        work = partial(mail.bind, session_key=session_key, session_id=session_id)
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
        work = partial(mail.claim, session_key=session_key, owner=owner, now=now)
        return await self.write(partial(work, until=until, dead=dead), is_small=True)

    async def renew(self, owner: str, until: float) -> int:
        return await self.write(partial(mail.renew, owner=owner, until=until), is_small=True)

    async def release(self, right: Fenced) -> None:
        await self.write(partial(mail.release, right=right), is_small=True)

    async def forget_chat(self, right: Fenced) -> None:
        await self.write(partial(mail.forget, right=right), is_small=True)

    async def chat_owners(self) -> tuple[str, ...]:
        return await self.read(mail.owners)


class Mail(Inbox, Outbox, Chats):
    """`mail.Mail`."""

    async def mail_counts(self) -> tuple[MailCount, ...]:
        return await self.read(mail.counts)

    async def clean_mail(self, before: float) -> int:
        return await self.write(partial(mail.clean_mail, before=before))


def _is_small(drafts: tuple[Draft, ...]) -> bool:
    return sum(len(draft.body) for draft in drafts) <= _SMALL


class SqlSessionStore(Conversations, Catalogue, Upkeep, Mail, Claims, Responses):
    """Opened by the first call."""


# Which store it is.

log = logging.getLogger(__name__)


def open_store(url: str, path: Path, tell: Callable[[str], None] = log.warning) -> SqlSessionStore:
    """The store at `url`, or in the SQLite file `path` when there is none.

    Nothing is opened before the first use. `tell` gets what the user must know, such as that a
    damaged file was repaired.
    """
    return SqlSessionStore(open_engine(url, path, tell))


def open_engine(url: str, path: Path, tell: Callable[[str], None] = log.warning) -> Engine:
    backend: Backend = _postgres(url) if url else SqliteBackend(path, tell)
    return Engine(backend)


def _postgres(url: str) -> Backend:
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "store.url must begin with postgresql://",
            hint="Leave it empty to keep sessions in a file of your home.",
        )
    try:
        from hermes.store.postgres.backend import PostgresBackend  # psycopg is optional
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise ConfigError(
            "store.url names a PostgreSQL server, but psycopg is not installed",
            hint="Install it into Hermes' environment: pip install 'psycopg[binary]'",
        ) from None
    return PostgresBackend(url)

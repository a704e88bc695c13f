"""`SessionStore`: every operation on the store as an async method.

A call that returns means the data is safe. Operations that name a session raise `SessionNotFound`
for one that does not exist.

Most operations are declared in one line as `read(query)`, `write(query)` or `timed(query)`: the
method takes the parameters of the query function except the database and the time. Queries are
plain synchronous functions in `store.queries`; they serve SQLite and PostgreSQL alike. The others
are methods, because they need the backend or some work before the transaction.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import msgspec

from hermes.core.errors import ConfigError
from hermes.core.messages import Message
from hermes.core.model import ModelCall
from hermes.store.engine import Backend, Database, Engine, Progress, ignore_progress
from hermes.store.queries import approvals, chats, inbox, lifecycle, outbox, runs
from hermes.store.queries import messages as message_queries
from hermes.store.queries import sessions as session_queries
from hermes.store.queries import usage as usage_queries
from hermes.store.records import (
    ChatLease,
    GatewayBeat,
    OutboxItem,
    Record,
    SearchHit,
    SearchRequest,
    StoreStats,
)
from hermes.store.rows import to_row
from hermes.store.search import search
from hermes.util.extras import install_hint

P = ParamSpec("P")
T = TypeVar("T")

SMALL_EVENT = 8000  #: Bytes of a chat message that takes a fraction of a millisecond to store.
SMALL_PROMPT = 32_000
"""Characters of a system prompt that takes a fraction of a millisecond to store; it is not
indexed."""

WEAK_SHARE = 0.5  #: A search whose best hit has less of the query found little.
SuggestWords = Callable[[str], Awaitable[Sequence[str]]]
"""Returns other words for a query, such as synonyms; none if it has no idea."""

log = logging.getLogger(__name__)

_lease: ContextVar[ChatLease | None] = ContextVar("hermes_lease", default=None)


@contextmanager
def under_lease(lease: ChatLease | None) -> Iterator[None]:
    """Refuse writes to sessions with `LeaseLost` once `lease` is not the newest of its chat. None
    changes nothing.

    It applies to the block and to the tasks that are started in it, so that a process which lost a
    chat writes nothing more into its session.
    """
    token = _lease.set(lease or _lease.get())
    try:
        yield
    finally:
        _lease.reset(token)


class StorePart:
    """A group of operations that run on one engine."""

    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        self._engine, self.now = engine, now

    async def run_read(self, work: Callable[[Database], T]) -> T:
        return await self._engine.read_from_loop(work)

    async def run_write(
        self, work: Callable[[Database], T], *, small: bool = False, fenced: bool = False
    ) -> T:
        """Return the result of `work` once it is committed. A small one takes a fraction of a
        millisecond and may run in the event loop; a fenced one first checks the lease in force, in
        the same transaction."""
        lease = _lease.get() if fenced else None

        def checked(database: Database) -> T:
            if lease is not None:
                chats.check_lease(database, lease)
            return work(database)

        return await self._engine.write_from_loop(checked, is_small=small)


class StoreOperation(Generic[P, T]):
    """A descriptor that makes a query an async method of a `StorePart`."""

    def __init__(
        self,
        query: Callable[..., T],
        *,
        writes: bool = True,
        timed: bool = False,
        small: bool | Callable[..., bool] = False,
        fenced: bool = False,
    ) -> None:
        self._query, self._writes, self._timed = query, writes, timed
        self._small, self._fenced = small, fenced
        self.__doc__ = query.__doc__

    @overload
    def __get__(self, part: None, owner: type) -> "StoreOperation[P, T]": ...
    @overload
    def __get__(self, part: StorePart, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, part: StorePart | None, owner: type) -> object:
        if part is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            moment = (part.now(),) if self._timed else ()

            def work(database: Database) -> T:
                return self._query(database, *moment, *args, **kwargs)

            if not self._writes:
                return part.run_read(work)
            small = self._small(*args, **kwargs) if callable(self._small) else self._small
            return part.run_write(work, small=small, fenced=self._fenced)

        return call


def read(query: Callable[Concatenate[Database, P], T]) -> StoreOperation[P, T]:
    """Declare an operation that runs in a reader thread."""
    return StoreOperation(query, writes=False)


def write(
    query: Callable[Concatenate[Database, P], T],
    *,
    small: bool | Callable[P, bool] = False,
    fenced: bool = False,
) -> StoreOperation[P, T]:
    """Declare an operation that runs in a write transaction (see `StorePart.run_write`). `small`
    may decide by the arguments."""
    return StoreOperation(query, small=small, fenced=fenced)


def timed(
    query: Callable[Concatenate[Database, float, P], T],
    *,
    small: bool | Callable[P, bool] = False,
    fenced: bool = False,
) -> StoreOperation[P, T]:
    """`write` for a query that takes the time of the call after the database."""
    return StoreOperation(query, timed=True, small=small, fenced=fenced)


def _is_small(items: Sequence[OutboxItem]) -> bool:
    return sum(len(item.body) for item in items) <= SMALL_EVENT


class InboxQueue(StorePart):
    """Messages of chats on their way in."""

    receive = write(inbox.receive, small=lambda item, *_, **__: len(item.event) <= SMALL_EVENT)
    pending = read(inbox.pending)
    pending_chats = read(inbox.pending_chats)
    pending_of = read(inbox.pending_of)
    orphaned_chats = read(inbox.orphaned_chats)
    start = write(inbox.start, small=True)
    start_command = write(inbox.start_command, small=True, fenced=True)
    answer = write(inbox.answer, small=lambda _ids, items, *_, **__: _is_small(items))


class OutboxQueue(StorePart):
    """Messages of chats on their way out."""

    enqueue = write(outbox.enqueue, small=lambda items, *_, **__: _is_small(items))
    enqueue_sending = write(outbox.enqueue_sending, small=lambda item, *_, **__: _is_small([item]))
    due = read(outbox.due)
    in_doubt = read(outbox.in_doubt)
    get = read(outbox.get)
    stream_of = read(outbox.stream_of)
    finish_stream = write(outbox.finish_stream, small=lambda _id, items, *_, **__: _is_small(items))
    mark_sending = write(outbox.mark_sending, small=True)
    take_sending = write(outbox.take_sending, small=True)
    mark_streaming = write(outbox.mark_streaming, small=True)
    mark_sent = write(outbox.mark_sent, small=True)
    retry = write(outbox.retry, small=lambda *_, body=b"", **__: not body)
    give_up = write(outbox.give_up, small=True)


class ChatLeases(StorePart):
    """The session of each chat, and the process that works on the chat."""

    get = read(chats.get)
    select = read(chats.select)
    bind = write(chats.bind, small=True)
    claim = write(chats.claim, small=True)
    renew = write(chats.renew, small=True)
    release = write(chats.release, small=True)
    delete = write(chats.delete, small=True)
    owners = read(chats.owners)

    async def gateways(self) -> GatewayBeat:
        """Return the gateways that share the store, or did until a while ago."""
        backend = self._engine.backend
        return await self.run_read(
            lambda database: GatewayBeat(backend.now(database), chats.gateways(database))
        )

    async def beat(
        self, owner: str, platforms: bytes, seconds: float, keys: Sequence[str] = ()
    ) -> GatewayBeat:
        """Record that a gateway is alive (see `queries.chats.beat`), by the clock of the store."""
        backend = self._engine.backend

        def work(database: Database) -> GatewayBeat:
            return chats.beat(database, owner, platforms, backend.now(database), seconds, keys)

        return await self.run_write(work)


class ApprovalStore(StorePart):
    """Approvals that are asked for in chats, for other processes than the gateway."""

    ask = write(approvals.ask)
    renew = write(approvals.renew, small=True)
    answer = write(approvals.answer, small=True)
    resolve = write(approvals.resolve, small=True)
    unresolved = read(approvals.unresolved)
    get = read(approvals.get)
    since = read(approvals.since)
    newest_id = read(approvals.newest_id)


class RunClaims(StorePart):
    """Runs of scheduled jobs, claimed so that each instant runs once, and the jobs of a store that
    several machines share."""

    claim = write(runs.claim, small=True)
    record = write(runs.record, small=True)
    take_over = write(runs.take_over, small=True)
    report = write(runs.report, small=True)
    retry_delivery = write(runs.retry_delivery, small=True)
    confirm = write(runs.confirm, small=True)
    unconfirmed = read(runs.unconfirmed)
    renew = write(runs.renew, small=True)
    owners = read(runs.owners)
    history = read(runs.history)
    clean = write(runs.clean)
    jobs = read(runs.jobs)
    save_job = write(runs.save_job, small=True)
    delete_job = write(runs.delete_job, small=True)


class ResponseStore(StorePart):
    """Responses of the API server that clients may retrieve again."""

    save = write(runs.save_response)
    get = write(runs.get_response)
    last = write(runs.last_response)
    delete = write(runs.delete_response)


class SessionStore(StorePart):
    """Sessions and their append-only log, and the other parts of the store.

    Opened by the first operation. `now` gives the timestamps of sessions and messages.
    """

    def __init__(self, engine: Engine, now: Callable[[], float] = time.time) -> None:
        super().__init__(engine, now)
        self.inbox = InboxQueue(engine)
        self.outbox = OutboxQueue(engine)
        self.chats = ChatLeases(engine)
        self.approvals = ApprovalStore(engine)
        self.runs = RunClaims(engine)
        self.responses = ResponseStore(engine)

    @property
    def is_shared(self) -> bool:
        """Whether several machines may use the store at the same time."""
        return not self._engine.backend.is_local

    def close(self) -> None:
        """Finish pending writes and release the store. Further calls have no effect."""
        self._engine.close()

    # Conversations

    messages = read(message_queries.conversation)
    entries = read(message_queries.entries)
    page = read(message_queries.page)
    log = read(message_queries.log)
    log_since = read(message_queries.log_since)
    newest_message_id = read(message_queries.newest_id)
    version = read(message_queries.version)
    undone = read(message_queries.undone)
    changes = read(message_queries.changes)
    ancestors = read(lifecycle.ancestors)
    descendants = read(lifecycle.descendants)
    usage = read(usage_queries.lines)
    spent_usd = read(usage_queries.spent_usd)
    last_prompt_tokens = read(usage_queries.last_prompt_tokens)
    reopen = write(session_queries.reopen)

    create = timed(
        session_queries.create,
        small=lambda *_, system_prompt, **__: len(system_prompt or "") <= SMALL_PROMPT,
    )
    record_call = timed(usage_queries.record, small=True)
    finish = timed(session_queries.end, small=True, fenced=True)
    branch = timed(lifecycle.branch, fenced=True)
    compact = timed(lifecycle.compact, fenced=True)
    rewrite = timed(lifecycle.rewrite, fenced=True)
    undo = timed(lifecycle.undo, fenced=True)

    async def append(self, session_id: str, message: Message, call: ModelCall | None = None) -> int:
        """Append a message to the log, together with the model call it came from, and return its
        id. A finished session is open again."""
        # The row is encoded here, so that the transaction is short.
        row, now = to_row(message), self.now()
        backend, count = self._engine.backend, message_queries.calls_in(message)

        def work(database: Database) -> int:
            id_ = message_queries.append(backend, database, session_id, row, calls=count, now=now)
            if call is not None:
                usage_queries.record(database, now, session_id, call)
            return id_

        return await self.run_write(work, small=message_queries.is_small(row), fenced=True)

    # Finding sessions and messages

    info = read(session_queries.info)
    latest = read(session_queries.latest)
    sessions = read(session_queries.select)
    count_sessions = read(session_queries.count)
    resolve = read(session_queries.resolve)
    set_title = write(session_queries.set_title)
    next_title = read(session_queries.next_title)

    async def search(
        self, request: SearchRequest, suggest: SuggestWords | None = None
    ) -> tuple[SearchHit, ...]:
        """Return the hits, best first. Raises `UsageError` for a query without a search term.

        If a tolerant search finds little, it is repeated with the words that `suggest` returns for
        the query.
        """
        backend, now = self._engine.backend, self.now()
        hits = await self.run_read(lambda database: search(backend, database, request, now))
        is_weak = not hits or hits[0].share < WEAK_SHARE
        if suggest is None or not request.tolerant or not is_weak:
            return hits
        if not (words := tuple(await suggest(request.query))):
            return hits
        wider = msgspec.structs.replace(request, also=words)
        return await self.run_read(lambda database: search(backend, database, wider, now))

    # Export, deletion and maintenance

    export = read(lifecycle.export)
    delete = write(lifecycle.delete)
    prune = write(lifecycle.prune)
    set_archived = timed(session_queries.set_archived)
    activity = read(usage_queries.activity)
    queue_counts = read(inbox.queue_counts)
    clean_queues = write(inbox.clean_queues)

    async def restore(self, record: Record) -> str:
        """Store an exported session again and return its id. Raises `UsageError` for data that is
        not a session and `StoreError` for an id that exists."""
        backend, now = self._engine.backend, self.now()
        return await self.run_write(
            lambda database: lifecycle.restore(backend, database, record, now)
        )

    async def stats(self) -> StoreStats:
        return await self.run_read(partial(lifecycle.stats, self._engine.backend))

    async def reindex(self, progress: Progress = ignore_progress) -> int:
        """Rebuild the search index and return the number of messages in it."""
        return await self.run_write(partial(self._engine.backend.reindex, progress=progress))

    async def vacuum(self) -> None:
        """Return unused space to the disk."""
        await self.run_read(self._engine.backend.vacuum)

    async def backup(self, target: Path, progress: Progress = ignore_progress) -> None:
        """Copy the whole store to a new file while others write."""
        await self.run_read(partial(self._engine.backend.backup, target=target, progress=progress))


def open_store(url: str, path: Path, notify: Callable[[str], None] = log.warning) -> SessionStore:
    """Return the store at `url`, or in the SQLite file `path` when `url` is empty.

    Nothing is opened before the first operation. `notify` gets what the user must know, such as
    that a damaged file was repaired.
    """
    return SessionStore(open_engine(url, path, notify))


def open_engine(url: str, path: Path, notify: Callable[[str], None] = log.warning) -> Engine:
    # Here, so that a module which only names `SessionStore` does not load a database driver.
    from hermes.store.sqlite.backend import SqliteBackend

    return Engine(_postgres(url) if url else SqliteBackend(path, notify))


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
            hint=install_hint("postgres"),
        ) from None
    return PostgresBackend(url)

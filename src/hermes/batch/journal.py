"""Model calls of a run: replies are stored when they arrive, and money is reserved before a call.

The driver appends every answered call to `journal.jsonl` at once. An item that is run again after a
crash gets the stored replies, so no call is paid for twice. The same file counts what the run has
spent. With a budget, the highest cost of a call is reserved in the file before the call is made, so
that calls which were running when the process was killed are counted too.

Bytes that were written survive the end of the process at any instant; the driver syncs the file
with each commit of the ledger, so a power cut can lose the calls of a fraction of a second.
"""

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes.batch.work import AnsweredCall, CallJournal
from hermes.core.errors import BudgetSpent, CredentialMissing, ProviderError, Unreachable
from hermes.core.messages import Message
from hermes.core.model import (
    REQUEST_TOKENS,
    EmitModelEvent,
    Model,
    ModelRequest,
    Price,
    Reply,
    messages_tokens,
    tools_tokens,
)
from hermes.providers.policy import ModelWrapper
from hermes.providers.policy.budget import DEFAULT_MAX_OUTPUT, MILLION, ROUNDING
from hermes.util.files import write_bytes

JOURNAL = "journal.jsonl"
COMPACT_BYTES = 16_000_000  #: A smaller file is not compacted during a run.
COMPACT_SHARE = 4  #: Compact when the needed entries are less than this fraction (1/4).


def request_digest(request: ModelRequest) -> str:
    """Return a hash of a request. Equal requests have equal digests in every process."""
    options = msgspec.json.encode(
        (
            request.tools,
            request.max_tokens,
            request.temperature,
            request.reasoning_effort,
            request.reply_schema,
        ),
        order="deterministic",
    )
    digest = hashlib.sha256(options)
    for message in request.messages:
        # The hash of a message is kept with it, so a long history costs little.
        digest.update(bytes(message.wire(_message_hash)))
    return digest.hexdigest()[:32]


def _message_hash(message: Message) -> str:
    return hashlib.sha256(msgspec.json.encode(message, order="deterministic")).hexdigest()


# The file, which only the driver writes.


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: an answered call, the cost of a call without an answer, or a reservation."""

    key: str = ""  #: Of the item.
    digest: str = ""
    usd: float = 0.0
    reserve: str = ""  #: Begins a reservation of `usd` with this id.
    settle: str = ""  #: Ends the reservation with this id.
    reply: Reply | None = None


class _StoredEntry(msgspec.Struct, frozen=True):
    key: str = ""
    usd: float = 0.0
    reserve: str = ""
    settle: str = ""
    reply: msgspec.Raw = msgspec.Raw()


class _Place(NamedTuple):
    offset: int
    size: int


_DECODE = msgspec.json.Decoder(_StoredEntry)


class JournalFile:
    """The journal of a run. Raises `OSError` when it cannot be written."""

    def __init__(self, path: Path) -> None:
        """Read the file; a torn last line is removed."""
        self._path = path
        self.spent_usd = 0.0  #: In all sessions of the run.
        self.reserved: dict[str, float] = {}  #: Open reservations by id.
        self.reserved_usd = 0.0
        self._calls: dict[str, list[_Place]] = {}  #: Answered calls by item.
        self._cost: dict[str, float] = {}  #: Cost of the calls of an item.
        self._live = 0  #: Bytes of the answered calls.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._size = 0
        self._dirty = False
        self._load()

    def _load(self) -> None:
        with self._path.open("rb") as file:
            for line in file:
                try:
                    entry = _DECODE.decode(line)
                except msgspec.DecodeError:
                    entry = None
                if entry is None or not line.endswith(b"\n"):
                    # Nothing is written after a torn line, except after a power cut.
                    os.ftruncate(self._file, self._size)
                    break
                self._count(entry, len(line))
        # These calls ran when the process was killed. The provider may have charged for them.
        for name, usd in list(self.reserved.items()):
            self.write(JournalEntry(settle=name, usd=usd))

    def _count(self, entry: _StoredEntry, size: int) -> None:
        place, self._size = _Place(self._size, size), self._size + size
        if entry.reserve:
            self.reserved[entry.reserve] = entry.usd
            self.reserved_usd += entry.usd
            return
        self.reserved_usd -= self.reserved.pop(entry.settle, 0.0)
        self.spent_usd += entry.usd
        if entry.key:
            self._cost[entry.key] = self._cost.get(entry.key, 0.0) + entry.usd
        if entry.reply:
            self._calls.setdefault(entry.key, []).append(place)
            self._live += size

    def write(self, entry: JournalEntry) -> None:
        """Append an entry."""
        self.append(encode_entry(entry))

    def append(self, line: bytes) -> None:
        """Append an encoded entry."""
        view = memoryview(line)
        while view:
            view = view[os.write(self._file, view) :]
        self._dirty = True
        self._count(_DECODE.decode(line), len(line))

    def keys(self) -> set[str]:
        """Return the items that have answered calls."""
        return set(self._calls)

    def calls(self, key: str) -> list[bytes]:
        """Return the stored lines of the answered calls of an item, in their order."""
        return [os.pread(self._file, p.size, p.offset) for p in self._calls.get(key, ())]

    def cost(self, key: str) -> float:
        """Return the cost of all calls of an unfinished item."""
        return self._cost.get(key, 0.0)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the calls of finished items. Their cost stays counted."""
        for key in keys:
            self._cost.pop(key, None)
            self._live -= sum(place.size for place in self._calls.pop(key, ()))
        if self._size > COMPACT_BYTES and self._live * COMPACT_SHARE < self._size:
            self.compact()

    def compact(self) -> None:
        """Rewrite the file with only the entries that are needed."""
        calls = {key: self.calls(key) for key in self._calls}
        costs, reserved = dict(self._cost), dict(self.reserved)
        needed = [JournalEntry(reserve=name, usd=usd) for name, usd in reserved.items()]
        lines = [encode_entry(entry) for entry in needed]
        for key, stored in calls.items():
            lines += stored
            known = sum(_DECODE.decode(line).usd for line in stored)
            if (rest := costs.get(key, 0.0) - known) > ROUNDING:
                lines.append(encode_entry(JournalEntry(key=key, usd=rest)))
        earlier = self.spent_usd - sum(_spent(line) for line in lines)
        lines.insert(0, encode_entry(JournalEntry(usd=earlier)))
        write_bytes(self._path, b"".join(lines))
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self.spent_usd = self.reserved_usd = 0.0
        self._size, self._live, self._dirty = 0, 0, False
        for table in (self._calls, self._cost, self.reserved):
            table.clear()
        for line in lines:
            self._count(_DECODE.decode(line), len(line))

    def sync(self) -> None:
        if self._dirty:
            self._dirty = False
            os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def encode_entry(entry: JournalEntry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def _spent(line: bytes) -> float:
    entry = _DECODE.decode(line)
    return 0.0 if entry.reserve else entry.usd


# The budget of a run, in the driver.


class RunBudget:
    """Grants reservations to the workers, so that spent and reserved money stay within the cap.

    A call that fits only if running calls cost less than they have reserved waits for them.
    """

    def __init__(self, cap: float, journal: JournalFile) -> None:
        self.cap, self._journal = cap, journal
        self._waiting: deque[tuple[str, float, Callable[[bool], None]]] = deque()
        self.refused = False  #: A call did not fit.

    def reserve(self, name: str, usd: float, answer: Callable[[bool], None]) -> None:
        """Call `answer` with True when the money is reserved, or with False if it is spent."""
        self._waiting.append((name, usd, answer))
        self.serve()

    def serve(self) -> None:
        """Answer the calls that wait, as far as possible. Called when a reservation has ended."""
        journal, waiting = self._journal, self._waiting
        self._waiting = deque()
        for name, usd, answer in waiting:
            left = self.cap - journal.spent_usd + ROUNDING
            if usd <= left - journal.reserved_usd:
                journal.write(JournalEntry(reserve=name, usd=usd))
                answer(True)
            elif usd <= left:
                self._waiting.append((name, usd, answer))
            else:
                self.refused = True
                answer(False)

    def withdraw(self, name: str) -> None:
        """Forget a call that waits."""
        self._waiting = deque([call for call in self._waiting if call[0] != name])


# The journal of one item, in a worker.


class CallLimits(msgspec.Struct, frozen=True):
    """What a call may cost at most; the estimate of `hermes.providers.policy.budget`."""

    price: Price
    max_output: int | None = None  #: Of the sampling settings, which replace that of a request.

    def highest_cost(self, request: ModelRequest) -> tuple[float, ModelRequest]:
        """Return the highest cost, and the request with a limit for its reply.

        Unlike in a conversation, the limit is not lowered to what is left: replies that are cut
        off would spoil the results of the run.
        """
        tokens = REQUEST_TOKENS + messages_tokens(request.messages) + tools_tokens(request.tools)
        price = self.price.for_prompt(tokens)
        longest = self.max_output or request.max_tokens
        if longest is None:
            longest = DEFAULT_MAX_OUTPUT
            request = msgspec.structs.replace(request, max_tokens=longest)
        dearest = max(price.input, price.cache_read, price.cache_write)
        return (tokens * dearest + longest * price.output) / MILLION, request

    def cost(self, reply: Reply) -> float:
        """Return the cost of a reply; 0 if the endpoint reported no usage."""
        return reply.cost_usd or self.price.cost(reply.usage)


class ItemJournal:
    """The `CallJournal` of an item that runs in a worker."""

    def __init__(
        self,
        key: str,
        stored: Iterable[bytes],
        send: Callable[[JournalEntry], Awaitable[None]],
        limits: CallLimits | None = None,
        reserve: Callable[[float], Awaitable[str]] | None = None,
    ) -> None:
        """`stored` are the lines of earlier calls. `send` sends an entry at once; what it returns
        waits until the driver has it. `reserve` returns the id of a reservation."""
        self.key, self._send = key, send
        self._limits, self._reserve = limits, reserve
        self.running = 0  #: Calls that wait for their replies.
        self.closed = False  #: The item is being cancelled, so that no more calls begin.
        self._stored: dict[str, deque[Reply]] = {}
        for line in stored:
            call = msgspec.json.decode(line, type=AnsweredCall)
            self._stored.setdefault(call.digest, deque()).append(call.reply)

    def find(self, digest: str) -> Reply | None:
        """Return the next stored reply to a request. Each one is used once: an item that makes the
        same request twice gets both replies in their order."""
        replies = self._stored.get(digest)
        return replies.popleft() if replies else None

    def add(self, digest: str, reply: Reply) -> None:
        self._add(digest, reply, reply.cost_usd or 0.0)

    def _add(self, digest: str, reply: Reply, usd: float, reservation: str = "") -> Awaitable[None]:
        entry = JournalEntry(key=self.key, digest=digest, usd=usd, settle=reservation, reply=reply)
        return self._send(entry)

    async def call(
        self, model: Model, request: ModelRequest, digest: str, emit: EmitModelEvent
    ) -> Reply:
        """Call a model within the budget of the run, and store its reply."""
        if self.closed:
            # A request may be sent before the cancellation arrives at the next `await`.
            await asyncio.Event().wait()
        highest, reservation = 0.0, ""
        if self._limits is not None and self._reserve is not None:
            highest, request = self._limits.highest_cost(request)
            reservation = await self._reserve(highest) if highest else ""
        charged = highest  # a cancelled call counts in full
        self.running += 1
        try:
            reply = await model.call(request, emit)
        except ProviderError as error:
            # An answer with a status is a refusal. Other failures happened during the reply.
            is_free = error.status is not None or isinstance(error, CredentialMissing | Unreachable)
            charged = 0.0 if is_free else highest
            raise
        except BudgetSpent:  # of a setting of the user
            charged = 0.0
            raise
        else:
            cost = self._limits.cost(reply) if self._limits else reply.cost_usd or 0.0
            stored = self._add(digest, reply, cost or highest, reservation)
            reservation = ""
        finally:
            self.running -= 1
            if reservation:
                self._send(JournalEntry(key=self.key, settle=reservation, usd=charged))
        # If the driver dies, the item makes no call that could not be stored.
        await stored
        return reply


class JournaledModel(ModelWrapper):
    """Returns the stored replies of an interrupted item, and stores new ones. Use it as the `wrap`
    of a rollout: `lambda model: JournaledModel(model, journal)`."""

    def __init__(self, inner: Model, journal: CallJournal) -> None:
        super().__init__(inner)
        self._journal = journal

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        digest = request_digest(request)
        if (stored := self._journal.find(digest)) is not None:
            return stored
        if isinstance(self._journal, ItemJournal):
            return await self._journal.call(self._inner, request, digest, emit)
        reply = await self._inner.call(request, emit)
        self._journal.add(digest, reply)
        return reply

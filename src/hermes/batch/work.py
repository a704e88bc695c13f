"""The work of a run: items, what is done for each of them, and what comes back.

A run is described by a `RunSpec`, which is plain data and is sent to every worker. The driver gets
the items from it, and each worker opens a `ItemJob` that works on items. A run of prompts
(`hermes.batch.prompts`) and a run of tasks (`hermes.batch.evaluation`) are the two kinds.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

import msgspec

from hermes.core.model import Price, Reply, Usage

ItemState = Literal["pending", "leased", "done", "discarded", "failed"]
FinalState = Literal["done", "discarded", "failed"]


class WorkItem(msgspec.Struct, frozen=True):
    """One rollout of a run."""

    key: str
    """Identity: a hash of the row's content, the configuration, the occurrence of the same row in
    the dataset, and the repeat."""
    index: int  #: Of the row in the dataset, from 0.
    repeat: int  #: From 0; a run may do each row several times.
    row: dict[str, Any]  #: The row of the dataset, as JSON data.
    occurrence: int = 0  #: How many equal rows come before this one in the dataset.


def item_key(row: dict[str, Any], fingerprint: str, occurrence: int, repeat: int) -> str:
    """Return the key of an item. The order of the row's fields does not matter."""
    return _key(_row_digest(row), fingerprint, occurrence, repeat)


def number_items(
    rows: Iterable[dict[str, Any]], fingerprint: str, repeats: int = 1
) -> Iterator[WorkItem]:
    """Yield the items of a dataset: each row `repeats` times in a row. Equal rows get different
    keys, so that none of them is dropped."""
    seen: dict[bytes, int] = {}
    for index, row in enumerate(rows):
        digest = _row_digest(row)
        occurrence = seen.get(digest, 0)
        seen[digest] = occurrence + 1
        for repeat in range(repeats):
            key = _key(digest, fingerprint, occurrence, repeat)
            yield WorkItem(key, index, repeat, row, occurrence)


def _row_digest(row: dict[str, Any]) -> bytes:
    return hashlib.sha256(msgspec.json.encode(row, order="deterministic")).digest()[:16]


def _key(row: bytes, fingerprint: str, occurrence: int, repeat: int) -> str:
    data = row + f"{fingerprint}\0{occurrence}\0{repeat}".encode()
    return hashlib.sha256(data).hexdigest()[:32]


class AnsweredCall(msgspec.Struct, frozen=True):
    """A model call that was answered and paid for. It is stored, so that an item which is run again
    after a crash gets the same reply without another call."""

    key: str  #: Of the item.
    digest: str  #: Of the request.
    reply: Reply


class ItemResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an item ended."""

    key: str
    state: FinalState
    reason: str = ""  #: Why it was discarded or failed.
    boundary: str = ""  #: Where it failed; see `hermes.envs.Failure`.
    line: bytes = b""
    """The output, one JSON object without a line break. An item that is done has one. That of a
    failed item, if it has one, is written to another file: `failed_` and the name of the first."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    api_calls: int = 0
    seconds: float = 0.0


class CallJournal(Protocol):
    """The answered calls of one item."""

    def find(self, digest: str) -> Reply | None:
        """Return the stored reply to a request, for an item that was interrupted before."""

    def add(self, digest: str, reply: Reply) -> None:
        """Store a reply. It reaches the driver at once."""


class ItemJob(AbstractAsyncContextManager["ItemJob"]):
    """Works on items in a worker process, any number at the same time."""

    @abstractmethod
    async def run(self, item: WorkItem, journal: CallJournal) -> ItemResult:
        """Work on one item. Never raises for a failure of the item."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What a run does; subclasses have a tag. Equal specs give equal keys."""

    # Subclasses implement these; a Struct cannot inherit from ABC.

    def fingerprint(self) -> str:
        """Return a hash of everything that changes the results: model, sampling, limits, …; not
        the number of workers or the folder."""
        raise NotImplementedError

    def items(self) -> Iterator[WorkItem]:
        """Yield all items of the run, in order. Raises `UsageError` for an invalid dataset."""
        raise NotImplementedError

    def output_file(self, item: WorkItem) -> str:
        """Return the name of the file in the run's folder that gets the item's line."""
        raise NotImplementedError

    def open_job(self, workspace: str = "") -> ItemJob:
        """Return the job of a worker process. `workspace` is the folder for the files of its items;
        it is the same when a run is continued, so that an item sees the same paths again."""
        raise NotImplementedError

    def price(self) -> Price | None:
        """Return the price of the model; the highest one, if there are several models. A run with a
        budget needs it."""
        return None

    def max_output(self) -> int | None:
        """Return the longest reply in tokens, if the sampling settings limit it. With a budget and
        without this limit, the engine limits replies itself."""
        return None


def decode_spec(data: bytes) -> RunSpec:
    """Return the spec that `run.json` stores. Its API key is not stored. Raises
    `msgspec.ValidationError`."""
    # Each kind imports the agent, and both modules import this one.
    from hermes.batch.evaluation import TaskSpec
    from hermes.batch.prompts import PromptSpec

    return msgspec.json.decode(data, type=PromptSpec | TaskSpec)

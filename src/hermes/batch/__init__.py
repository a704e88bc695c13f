"""Batch runs: work through a dataset with many rollouts at the same time, and survive any crash.

`BatchRun` executes a run in its folder, `read_run` reads the state of one. `hermes.batch.work`
describes the kinds of runs.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.batch.driver import BatchRun, Progress, RunOptions, RunOutcome
    from hermes.batch.journal import JournaledModel, request_digest
    from hermes.batch.ledger import ItemRecord, RunStatus, read_items, read_run
    from hermes.batch.work import (
        AnsweredCall,
        CallJournal,
        ItemJob,
        ItemResult,
        ItemState,
        RunSpec,
        WorkItem,
        decode_spec,
        item_key,
        number_items,
    )

__all__ = [
    "AnsweredCall",
    "BatchRun",
    "CallJournal",
    "ItemJob",
    "ItemRecord",
    "ItemResult",
    "ItemState",
    "JournaledModel",
    "Progress",
    "RunOptions",
    "RunOutcome",
    "RunSpec",
    "RunStatus",
    "WorkItem",
    "decode_spec",
    "item_key",
    "number_items",
    "read_items",
    "read_run",
    "request_digest",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)

"""A copy of the session store, and its rescue."""

import contextlib
import secrets
from pathlib import Path

import msgspec

from hermes.app.transcripts.output import check_output, unwritable
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.store.backend import Progress, ignore_progress
from hermes.store.session_store import SessionStore
from hermes.store.sqlite.repair import repair, restore


async def back_up(
    store: SessionStore,
    url: str,
    target: Path,
    *,
    overwrite: bool,
    progress: Progress = ignore_progress,
) -> None:
    """A copy of the whole store that appears at `target` whole or not at all."""
    check_output(target, overwrite=overwrite)
    if url:
        await store.backup(target, progress)
        return
    copy = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        await store.backup(copy, progress)
        copy.replace(target)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        with contextlib.suppress(OSError):  # after a success it has its new name
            copy.unlink()


def restore_store(home: Home, url: str, backup: Path) -> Path | None:
    """Put a backup in the place of the store; where the old store is kept, if there was one."""
    _only_for_sqlite("restore", url)
    return restore(home.state_db, backup)


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did."""

    outcome: str
    """`already_sound`, `reindexed` or `rescued`."""
    summary: str
    """The same for a person, with what could not be saved."""
    kept: str = ""
    """Where the damaged file is, when there was one."""
    sessions: int = 0
    messages: int = 0


def repair_store(home: Home, url: str, progress: Progress = ignore_progress) -> Repaired:
    """Look at the whole store and put a sound one in the place of a damaged one."""
    _only_for_sqlite("repair", url)
    report = repair(home.state_db, progress)
    found = report.salvaged
    return Repaired(
        outcome=report.outcome,
        summary=report.summary(),
        kept=str(report.kept or ""),
        sessions=found.sessions if found else 0,
        messages=found.messages if found else 0,
    )


def _only_for_sqlite(action: str, url: str) -> None:
    if url:
        raise UsageError(
            f"{action} is for the SQLite file of a home; store.url names a PostgreSQL server",
            hint="a server repairs itself; its own tools check and restore it",
        )

"""Puts a sound store in the place of a damaged one, and keeps the damaged one."""

from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull
from hermes.store.port import Progress, unheard
from hermes.store.sqlite import exchange
from hermes.store.sqlite.faults import as_store_error
from hermes.store.sqlite.health import SearchIndexDamaged, check, findings, search_indexes
from hermes.store.sqlite.migrations import refuse_newer
from hermes.store.sqlite.salvage.aside import keep, remove
from hermes.store.sqlite.salvage.rebuild import SalvageReport, salvage
from hermes.store.sqlite.transaction import transaction
from hermes.util.text import many

Outcome = Literal["already_sound", "reindexed", "rescued"]


class RescueReport(msgspec.Struct, frozen=True):
    path: Path
    outcome: Outcome
    kept: Path | None = None
    """Where the damaged file is."""
    salvaged: SalvageReport | None = None

    def summary(self) -> str:
        """What happened, for people."""
        if self.salvaged is None or self.kept is None:
            return {
                "already_sound": f"The session store {self.path} is sound; nothing was changed.",
                "reindexed": f"The search index of {self.path} was damaged and has been built "
                "anew. No message was lost.",
            }.get(self.outcome, "")
        found = self.salvaged
        if not found.sessions:
            back = "Nothing could be read of it, so the store is empty now."
        else:
            sessions, messages = many(found.sessions, "session"), found.messages
            parts = f"{sessions} with {many(messages, 'message')}"
            lost = "" if found.notes else " Nothing is known to be missing."
            back = f"{parts} brought back.{lost}"
        kept = (
            f"The session store {self.path} was damaged. The damaged file is kept as {self.kept}."
        )
        return " ".join((kept, back, *(f"{note}." for note in found.notes)))


def repair(path: Path, progress: Progress = unheard) -> RescueReport:
    """`rescue` for a store that somebody asked to have looked at."""
    if not path.exists():
        raise StoreError(
            f"there is no session store at {path}", hint="It is made when Hermes first starts."
        )
    return rescue(path, progress)


def rescue(path: Path, progress: Progress = unheard, now: datetime | None = None) -> RescueReport:
    """Look at the whole file, and replace it when it is damaged by a new one with all that can be
    read. A search index that is damaged alone is built anew in its place. One process at a time;
    the file may be in use by others. Raises `StoreError`, and then nothing was changed."""
    path = path.resolve()  # that is where SQLite has its log, also when `path` is a link
    moment = now or datetime.now(UTC).astimezone()
    try:
        with exchange.locked(path), exchange.opened(path) as connection:
            damage = _damage(connection, path)
            if damage == "tables" or (damage == "search" and not _reindexed(connection)):
                exchange.hold_writers(connection)
                return _replace(path, progress, moment)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            return RescueReport(path, "reindexed" if damage == "search" else "already_sound")
    except StoreFull as error:
        raise _no_room(path) from error
    except (apsw.Error, OSError) as error:
        found = as_store_error(error, path)
        raise (_no_room(path) if isinstance(found, StoreFull) else found) from error


def _damage(connection: apsw.Connection, path: Path) -> Literal["none", "search", "tables"]:
    """Looks at everything: who calls may have met damage that a glance does not show."""
    try:
        refuse_newer(connection)
        with suppress(SearchIndexDamaged):
            check(connection, path)
    except (StoreCorrupt, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        return "tables"
    found = findings(connection)
    if found.tables:
        return "tables"
    return "search" if found.search else "none"


def _reindexed(connection: apsw.Connection) -> bool:
    """Build the search index anew, in place; False when it is too damaged for that.

    Clearing a damaged tree could take pages from another one, so all is looked at before it is
    made to last.
    """
    try:
        with transaction(connection):
            for name in search_indexes(connection):
                connection.execute(f"INSERT INTO {name}({name}) VALUES ('rebuild')")
            found = findings(connection)
            if found.tables or found.search:
                raise apsw.CorruptError("the search index cannot be built anew in place")
    except apsw.CorruptError:
        return False
    return True


def _replace(path: Path, progress: Progress, moment: datetime) -> RescueReport:
    """Until the new file takes the place of the old one, a failure leaves things as they were;
    the copy of the old file goes too, for that file is still there."""
    recovering = Path(f"{path}.recovering")
    with ExitStack() as undo:
        undo.callback(remove, recovering)
        remove(recovering)
        kept = keep(path, moment)
        undo.callback(remove, kept)
        salvaged = salvage(kept, recovering, progress)
        undo.pop_all()
    exchange.put_in_place(recovering, path)
    return RescueReport(path, "rescued", kept, salvaged)


def _no_room(path: Path) -> StoreFull:
    return StoreFull(
        f"no room on the disk to repair the session store {path}",
        hint="Free three times the size of the file and try again. Nothing was changed.",
    )

"""The session store: can it be opened, is it sound, how large is it?"""

from pathlib import Path

import apsw

from hermes.app.doctor.findings import Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.app.sessions import opened_store
from hermes.app.store_care import repair_store
from hermes.config.home import tilde
from hermes.core.errors import HermesError, StoreError
from hermes.store.sqlite import health, repair
from hermes.store.sqlite.errors import as_store_error
from hermes.store.sqlite.schema import refuse_newer
from hermes.util.text import human_size, many

WHOLE_LOOK = 64 * 2**20
"""Up to this size everything is read, the search index too: about 10 ms for a MiB."""
LARGE_LOG = 64 * 2**20
LARGE = 5 * 2**30
MUCH_UNUSED = 100 * 2**20
STUMP = 512

REPAIR = "hermes sessions repair (it keeps the damaged file)"


def store(scene: Scene) -> Found:
    """Looks only: a store that is opened for use would be migrated or rescued."""
    path = scene.home.state_db
    if scene.settings.store.url:
        return []
    if not path.exists():
        return [fine("there are no sessions yet")]
    size = path.stat().st_size
    if 0 < size < STUMP:
        return [problem(f"{tilde(path)} is cut short", REPAIR)]
    try:
        with repair.open_unchanged(path) as connection:
            refuse_newer(connection)
            found = _damage(scene, connection, path, size)
            found += _unused(connection)
    except StoreError as error:
        return [problem(str(error), error.hint)]
    except apsw.Error as error:
        cause = as_store_error(error, path)
        return [problem(str(cause), getattr(cause, "hint", "") or REPAIR)]
    return [*found, *_sizes(path, size), *_remains(path)]


def _damage(scene: Scene, connection: apsw.Connection, path: Path, size: int) -> Found:
    wrong: list[str] = []
    try:
        health.check(connection, path)
        if size <= WHOLE_LOOK:
            looked = health.find_problems(connection)
            if looked.tables:
                return [problem(f"{tilde(path)} is damaged: {looked.tables[0]}", REPAIR)]
            wrong = looked.search
    except health.SearchIndexDamaged as error:
        wrong = [str(error)]
    if not wrong:
        depth = "sound" if size <= WHOLE_LOOK else "sound at a glance"
        return [fine(f"{tilde(path)} is {depth} ({human_size(size)})")]
    text = f"the search index does not match the messages: {wrong[0]}"
    home = scene.home
    return [problem(text, REPAIR, lambda: repair_store(home, "").summary)]


def _unused(connection: apsw.Connection) -> Found:
    unused = connection.pragma("freelist_count") * connection.pragma("page_size")
    if unused < MUCH_UNUSED:
        return []
    return [warning(f"{human_size(unused)} of it are unused", "hermes sessions vacuum")]


def _sizes(path: Path, size: int) -> Found:
    found: Found = []
    log = Path(f"{path.resolve()}-wal")
    logged = log.stat().st_size if log.exists() else 0
    if logged > LARGE_LOG:
        text = f"its log has grown to {human_size(logged)}: some program holds it open"
        found.append(warning(text, "end other hermes programs, then: hermes sessions vacuum"))
    if size > LARGE:
        text = f"{tilde(path)} has {human_size(size)}"
        found.append(warning(text, "hermes sessions prune --older-than 90"))
    return found


def _remains(path: Path) -> Found:
    """What a repair that was killed leaves."""
    left = Path(f"{path.resolve()}.recovering")
    if not left.exists():
        return []
    text = f"{tilde(left)} is left of a repair that did not end"
    return [warning(text, "hermes sessions repair does it again")]


async def store_server(scene: Scene) -> Found:
    url = scene.settings.store.url
    if not url:
        return []
    told: list[str] = []
    try:
        async with opened_store(scene.home, url, told.append) as opened:
            stats = await opened.stats()
    except HermesError as error:
        return [problem(str(error), error.hint or "look at store.url and at the server")]
    text = f"{stats.where} answers and holds {many(stats.sessions, 'session')}"
    return [*(warning(each, "look at the server") for each in told), fine(text)]

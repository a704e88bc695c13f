"""Claims on the runs of scheduled jobs, the jobs of a shared store, and stored API responses."""

from collections.abc import Sequence

import msgspec

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.engine import Database
from hermes.store.records import ENDED_STATES, MAX_RESPONSES, Run, StoredJob, StoredResponse
from hermes.store.rows import StructColumns, placeholders, to_columns

_RUN = StructColumns(Run)
_JOB = StructColumns(StoredJob)
_UNFINISHED = "state IN ('claimed', 'running')"

_INSERT = f"""
INSERT INTO cron_runs ({_RUN.names}) VALUES ({_RUN.placeholders})
ON CONFLICT (job_id, instant) DO NOTHING
"""
# Runs of the caller itself are excluded: they are in progress here.
_TAKE_OVER = f"""
UPDATE cron_runs SET owner = ?, lease_until = ?, claimed_at = ?, fence = fence + 1,
    attempt = attempt + 1
WHERE {_UNFINISHED} AND owner <> ? AND (lease_until <= ?{{dead}}) {{others}}
RETURNING {_RUN.names}
"""
_RETRY_DELIVERY = f"""
UPDATE cron_runs SET owner = ?, lease_until = ?, claimed_at = ?, fence = fence + 1,
    attempt = attempt + 1
WHERE job_id = ? AND instant = ? AND state = 'undelivered' AND fence = ? RETURNING {_RUN.names}
"""
_CONFIRM = """
UPDATE cron_runs SET state = ?, delivered = ?
WHERE job_id = ? AND instant = ? AND fence = ? AND state = 'ok' AND delivered = ?
"""
# `lease_until` is not written: the lease may have been renewed since the caller read it.
_REPORT = """
UPDATE cron_runs SET state = ?, started_at = ?, ended_at = ?, session_id = ?, output = ?,
    error = ?, delivered = ?
WHERE job_id = ? AND instant = ? AND owner = ? AND fence = ?
"""
_CLEAN = f"""
DELETE FROM cron_runs WHERE state IN ({placeholders(ENDED_STATES)})
AND coalesce(ended_at, instant) < ? AND (job_id, instant) IN (
    SELECT job_id, instant FROM (
        SELECT job_id, instant, row_number() OVER (
            PARTITION BY job_id ORDER BY instant DESC
        ) AS place FROM cron_runs
    ) AS placed WHERE place > ?
)
"""


def claim(
    database: Database, job_id: str, instant: float, owner: str, now: float, until: float
) -> Run | None:
    """Claim an instant of a job. Return None if it was claimed before, by any process."""
    run = Run(job_id, instant, "claimed", owner, until, fence=1, claimed_at=now)
    return run if record(database, run) else None


def record(database: Database, run: Run) -> bool:
    """Store an instant that is not run (`missed`, `skipped`). Return False if it is stored."""
    return bool(database.change(_INSERT, to_columns(*msgspec.structs.astuple(run))))


def take_over(
    database: Database,
    owner: str,
    now: float,
    until: float,
    *,
    dead: Sequence[str] = (),
    other_jobs: Sequence[str] = (),
) -> tuple[Run, ...]:
    """Claim the unfinished runs of other processes whose lease has expired or whose owner is named
    in `dead`, and return them, the earliest first. They get a higher fence and one more attempt;
    their state stays as the earlier owner left it. Runs of `other_jobs` are left to others."""
    named = f" OR owner IN ({placeholders(dead)})" if dead else ""
    others = f"AND job_id NOT IN ({placeholders(other_jobs)})" if other_jobs else ""
    values = to_columns(owner, until, now, owner, now, *dead, *other_jobs)
    statement = _TAKE_OVER.format(dead=named, others=others)
    taken = _RUN.read_all(database.rows(statement, values))
    return tuple(sorted(taken, key=lambda run: (run.instant, run.job_id)))


def report(database: Database, run: Run) -> None:
    """Store the new state of a run that the caller owns. Raises `LeaseLost`."""
    new = (run.state, run.started_at, run.ended_at, run.session_id, run.output)
    which = (run.job_id, run.instant, run.owner, run.fence)
    if not database.change(_REPORT, to_columns(*new, run.error, run.delivered, *which)):
        raise LeaseLost(
            f"another process has this run of the job {run.job_id} by now",
            hint="Nothing to do: `hermes cron runs` shows what became of it.",
        )


def retry_delivery(
    database: Database, run: Run, owner: str, now: float, until: float
) -> Run | None:
    """Claim a run whose answer was not delivered, to deliver it again. Return None if another
    process did."""
    which = (run.job_id, run.instant, run.fence)
    values = to_columns(owner, until, now, *which)
    return _RUN.first(database.rows(_RETRY_DELIVERY, values))


def confirm(database: Database, run: Run, state: str, delivered: str) -> bool:
    """Record what became of the messages of a run that is `ok`. Return False if it changed."""
    which = (run.job_id, run.instant, run.fence, run.delivered)
    return bool(database.change(_CONFIRM, to_columns(state, delivered, *which)))


def unconfirmed(database: Database, since: float, pattern: str) -> tuple[Run, ...]:
    """Return the runs that ended since then and whose answer was not delivered, or is `ok` with a
    delivery like `pattern`."""
    statement = (
        f"SELECT {_RUN.names} FROM cron_runs WHERE ended_at > ?"
        " AND (state = 'undelivered' OR state = 'ok' AND delivered LIKE ?) ORDER BY instant"
    )
    return _RUN.read_all(database.rows(statement, (since, pattern)))


def renew(database: Database, owner: str, until: float) -> int:
    """Extend the leases of a process and return their number."""
    statement = f"UPDATE cron_runs SET lease_until = ? WHERE {_UNFINISHED} AND owner = ?"
    return database.change(statement, to_columns(until, owner))


def owners(database: Database) -> tuple[str, ...]:
    """Return the processes that hold unfinished runs."""
    rows = database.rows(
        f"SELECT DISTINCT owner FROM cron_runs WHERE {_UNFINISHED} AND owner <> '' ORDER BY owner"
    )
    return tuple(str(row[0]) for row in rows)


def history(database: Database, job_id: str = "", limit: int = 50) -> tuple[Run, ...]:
    """Return the runs of a job, or of all jobs, newest first."""
    only, values = ("WHERE job_id = ?", to_columns(job_id)) if job_id else ("", [])
    statement = f"SELECT {_RUN.names} FROM cron_runs {only} ORDER BY instant DESC, job_id LIMIT ?"
    return _RUN.read_all(database.rows(statement, (*values, limit)))


def clean(database: Database, before: float, keep: int = 100) -> int:
    """Delete runs that ended before then, except the newest `keep` of each job; return how many."""
    return database.change(_CLEAN, (*ENDED_STATES, before, keep))


def jobs(database: Database) -> tuple[StoredJob, ...]:
    return _JOB.read_all(database.rows(f"SELECT {_JOB.names} FROM cron_jobs ORDER BY id"))


def save_job(database: Database, job_id: str, record: bytes, version: int | None) -> int:
    """Store a job and return its new version. `version` is the stored one, or None for a new job.
    Raises `StoreConflict` if another process changed or created it meanwhile."""
    if version is None:
        changed = database.change(
            "INSERT INTO cron_jobs (id, record, version) VALUES (?, ?, 1)"
            " ON CONFLICT (id) DO NOTHING",
            to_columns(job_id, record),
        )
    else:
        changed = database.change(
            "UPDATE cron_jobs SET record = ?, version = version + 1 WHERE id = ? AND version = ?",
            to_columns(record, job_id, version),
        )
    if not changed:
        raise StoreConflict(
            f"another process changed the job {job_id} meanwhile",
            hint="Look at it again with `hermes cron list` and repeat the change.",
        )
    return (version or 0) + 1


def delete_job(database: Database, job_id: str) -> bool:
    return bool(database.change("DELETE FROM cron_jobs WHERE id = ?", to_columns(job_id)))


# Responses of the API server

_RESPONSE = StructColumns(StoredResponse)

_SAVE = f"""
INSERT INTO api_responses ({_RESPONSE.names}, used_at) VALUES ({_RESPONSE.placeholders}, ?)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, session_id = excluded.session_id,
    conversation = excluded.conversation, previous_id = excluded.previous_id,
    created_at = excluded.created_at, used_at = excluded.used_at
"""
_NEWEST = "SELECT max(created_at) FROM api_responses WHERE conversation = ? AND id <> ?"
_EVICT = """
DELETE FROM api_responses WHERE id <> ? AND id NOT IN (
    SELECT id FROM api_responses ORDER BY used_at DESC, created_at DESC, id DESC LIMIT ?
)
"""
_USE = f"UPDATE api_responses SET used_at = ? WHERE id = {{which}} RETURNING {_RESPONSE.names}"
_GET = _USE.format(which="?")
_LAST = _USE.format(
    which="""(
    SELECT id FROM api_responses WHERE conversation = ?
    ORDER BY created_at DESC, used_at DESC LIMIT 1
)"""
)


def save_response(database: Database, response: StoredResponse, now: float) -> None:
    """Store a response, replacing one with the same id. It is the last one of its conversation,
    even if the clock of another server is ahead. Beyond `MAX_RESPONSES`, the least recently used
    ones are deleted."""
    created = response.created_at or now
    if response.conversation:
        [(newest,)] = database.rows(_NEWEST, to_columns(response.conversation, response.id))
        created = max(created, (newest or 0.0) + 0.001)
    stored = msgspec.structs.replace(response, created_at=created)
    database.change(_SAVE, to_columns(*msgspec.structs.astuple(stored), now))
    database.change(_EVICT, (*to_columns(response.id), MAX_RESPONSES))


def get_response(database: Database, response_id: str, now: float) -> StoredResponse | None:
    """Return a response and record that it was used."""
    return _RESPONSE.first(database.rows(_GET, to_columns(now, response_id)))


def last_response(database: Database, conversation: str, now: float) -> StoredResponse | None:
    """Return the newest response of a named conversation and record that it was used."""
    return (
        _RESPONSE.first(database.rows(_LAST, to_columns(now, conversation)))
        if conversation
        else None
    )


def delete_response(database: Database, response_id: str) -> bool:
    return bool(database.change("DELETE FROM api_responses WHERE id = ?", to_columns(response_id)))

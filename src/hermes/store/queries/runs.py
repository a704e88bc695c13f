"""Scheduled work: who runs which instant of a job, and the jobs of a shared store."""

from collections.abc import Sequence

import msgspec

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.backend import Database
from hermes.store.queries.mail import Fields, fit, marks
from hermes.store.records import MOST_RESPONSES, OVER, Run, StoredJob, StoredResponse

_RUN = Fields(Run)
_JOB = Fields(StoredJob)
_UNFINISHED = "state IN ('claimed', 'running')"

_INSERT = f"""
INSERT INTO cron_runs ({_RUN.names}) VALUES ({_RUN.marks}) ON CONFLICT (job_id, instant) DO NOTHING
"""
# What is ours already is at work here; to run it once more would be wrong.
_TAKE_OVER = f"""
UPDATE cron_runs SET owner = ?, lease_until = ?, claimed_at = ?, fence = fence + 1,
    attempt = attempt + 1
WHERE {_UNFINISHED} AND owner <> ? AND (lease_until <= ?{{dead}}) RETURNING {_RUN.names}
"""
# The lease is left as it is: it may have been renewed since the caller read it.
_REPORT = """
UPDATE cron_runs SET state = ?, started_at = ?, ended_at = ?, session_id = ?, output = ?,
    error = ?, delivered = ?
WHERE job_id = ? AND instant = ? AND owner = ? AND fence = ?
"""
_CLEAN = f"""
DELETE FROM cron_runs WHERE state IN ({marks(OVER)}) AND coalesce(ended_at, instant) < ?
AND (job_id, instant) IN (
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
    run = Run(job_id, instant, "claimed", owner, until, fence=1, claimed_at=now)
    return run if note(database, run) else None


def note(database: Database, run: Run) -> bool:
    return bool(database.change(_INSERT, fit(*msgspec.structs.astuple(run))))


def take_over(
    database: Database, owner: str, now: float, until: float, dead: Sequence[str]
) -> tuple[Run, ...]:
    """The earliest first. Their state is as the earlier owner left it."""
    named = f" OR owner IN ({marks(dead)})" if dead else ""
    values = fit(owner, until, now, owner, now, *dead)
    taken = _RUN.read_all(database.rows(_TAKE_OVER.format(dead=named), values))
    return tuple(sorted(taken, key=lambda run: (run.instant, run.job_id)))


def report(database: Database, run: Run) -> None:
    new = (run.state, run.started_at, run.ended_at, run.session_id, run.output)
    which = (run.job_id, run.instant, run.owner, run.fence)
    if not database.change(_REPORT, fit(*new, run.error, run.delivered, *which)):
        raise LeaseLost(
            f"another process has this run of the job {run.job_id} by now",
            hint="Nothing to do: `hermes cron runs` shows what became of it.",
        )


def renew(database: Database, owner: str, until: float) -> int:
    statement = f"UPDATE cron_runs SET lease_until = ? WHERE {_UNFINISHED} AND owner = ?"
    return database.change(statement, fit(until, owner))


def owners(database: Database) -> tuple[str, ...]:
    rows = database.rows(
        f"SELECT DISTINCT owner FROM cron_runs WHERE {_UNFINISHED} AND owner <> '' ORDER BY owner"
    )
    return tuple(str(row[0]) for row in rows)


def runs(database: Database, job_id: str, limit: int) -> tuple[Run, ...]:
    only, values = ("WHERE job_id = ?", fit(job_id)) if job_id else ("", [])
    statement = f"SELECT {_RUN.names} FROM cron_runs {only} ORDER BY instant DESC, job_id LIMIT ?"
    return _RUN.read_all(database.rows(statement, (*values, limit)))


def clean(database: Database, before: float, keep: int) -> int:
    return database.change(_CLEAN, (*OVER, before, keep))


def jobs(database: Database) -> tuple[StoredJob, ...]:
    return _JOB.read_all(database.rows(f"SELECT {_JOB.names} FROM cron_jobs ORDER BY id"))


def save_job(database: Database, job_id: str, record: bytes, version: int | None) -> int:
    if version is None:
        changed = database.change(
            "INSERT INTO cron_jobs (id, record, version) VALUES (?, ?, 1)"
            " ON CONFLICT (id) DO NOTHING",
            fit(job_id, record),
        )
    else:
        changed = database.change(
            "UPDATE cron_jobs SET record = ?, version = version + 1 WHERE id = ? AND version = ?",
            fit(record, job_id, version),
        )
    if not changed:
        raise StoreConflict(
            f"somebody else changed the job {job_id} meanwhile",
            hint="Look at it again with `hermes cron list` and repeat the change.",
        )
    return (version or 0) + 1


def drop_job(database: Database, job_id: str) -> bool:
    return bool(database.change("DELETE FROM cron_jobs WHERE id = ?", fit(job_id)))


# Answers of the API server that may be asked for again.

_FIELDS = Fields(StoredResponse)

_SAVE = f"""
INSERT INTO api_responses ({_FIELDS.names}, used_at) VALUES ({_FIELDS.marks}, ?)
ON CONFLICT (id) DO UPDATE SET body = excluded.body, session_id = excluded.session_id,
    conversation = excluded.conversation, previous_id = excluded.previous_id,
    created_at = excluded.created_at, used_at = excluded.used_at
"""
_FORGET = """
DELETE FROM api_responses WHERE id <> ? AND id NOT IN (
    SELECT id FROM api_responses ORDER BY used_at DESC, created_at DESC, id DESC LIMIT ?
)
"""
_USE = f"UPDATE api_responses SET used_at = ? WHERE id = {{which}} RETURNING {_FIELDS.names}"
_GET = _USE.format(which="?")
_LAST = _USE.format(
    which="""(
    SELECT id FROM api_responses WHERE conversation = ?
    ORDER BY created_at DESC, used_at DESC LIMIT 1
)"""
)


def save(database: Database, response: StoredResponse, now: float) -> None:
    """One with the same id is replaced."""
    kept = msgspec.structs.replace(response, created_at=response.created_at or now)
    database.change(_SAVE, fit(*msgspec.structs.astuple(kept), now))
    database.change(_FORGET, (*fit(response.id), MOST_RESPONSES))


def get(database: Database, response_id: str, now: float) -> StoredResponse | None:
    return _FIELDS.first(database.rows(_GET, fit(now, response_id)))


def last(database: Database, conversation: str, now: float) -> StoredResponse | None:
    """None for a conversation without a name."""
    return _FIELDS.first(database.rows(_LAST, fit(now, conversation))) if conversation else None


def drop(database: Database, response_id: str) -> bool:
    return bool(database.change("DELETE FROM api_responses WHERE id = ?", fit(response_id)))

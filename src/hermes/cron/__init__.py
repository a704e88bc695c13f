"""Scheduled jobs: prompts that run at set times, each instant exactly once.

`JobService` creates and changes jobs. `Ticker` finds the due ones, claims them and runs them with
`JobRunner`; any number of processes may tick the same jobs.
"""

from hermes.cron.job import Job, Record
from hermes.cron.job_store import FileJobStore, JobStore, SharedJobStore
from hermes.cron.run_pool import (
    RunCallback,
    Runner,
    TickerOptions,
    is_owner_dead,
    new_owner,
    retire_owner,
)
from hermes.cron.runner import JobRunner, session_id_for
from hermes.cron.schedule import (
    Schedule,
    format_local,
    format_timestamp,
    last_until,
    next_after,
    parse_schedule,
    parse_timestamp,
    resolve_timezone,
)
from hermes.cron.service import JobService, check_platform, check_skills
from hermes.cron.ticker import Heartbeat, HeartbeatFile, Ticker

__all__ = [
    "FileJobStore", "Heartbeat", "HeartbeatFile", "Job", "JobRunner", "JobService", "JobStore",
    "Record", "RunCallback", "Runner", "Schedule", "SharedJobStore", "Ticker", "TickerOptions",
    "check_platform", "check_skills", "format_local", "format_timestamp", "is_owner_dead",
    "last_until", "new_owner", "next_after", "parse_schedule", "parse_timestamp",
    "resolve_timezone", "retire_owner", "session_id_for",
]  # fmt: skip

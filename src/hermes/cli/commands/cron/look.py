"""`hermes cron list`, `runs` and `status`."""

import argparse
from collections import Counter

from hermes.cli.actions import Actions
from hermes.cli.commands.cron.access import (
    CronCommandContext,
    acting,
    current_heartbeat,
    label,
    not_running_message,
    when,
)
from hermes.cli.commands.sessions.arguments import positive
from hermes.cli.commands.sessions.wording import document, table
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.cron import Record, format_local, is_owner_dead
from hermes.store.records import ENDED_STATES, Run
from hermes.util.plain import plain_line
from hermes.util.text import human_duration, many

MARKS = {
    "ok": "✓", "silent": "✓", "failed": "✗", "lost": "✗", "missed": "·", "skipped": "·",
    "claimed": "…", "running": "…",
}  # fmt: skip
TROUBLE = ("failed", "lost")
CUT_OFF = "cut off"
"""The state of a job whose run was left behind by a process that has ended."""
HEAD: tuple[str, ...] = ("ID", "NAME", "SCHEDULE", "STATE", "NEXT", "LAST", "DELIVERS TO")


def add_actions(actions: Actions) -> None:
    actions.add("list", acting(_list), "list the jobs and their next run", json=True)
    runs = actions.add("runs", acting(_runs), "show past runs and their results", json=True)
    runs.add_argument("job", nargs="?", default="", metavar="JOB", help="only those of this job")
    runs.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")
    actions.add(
        "status", acting(_status), "show what runs the jobs, the next run and failures", json=True
    )


async def _list(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    jobs = await context.service.list()
    await _warn_of_invalid_records(cli, context)
    if args.json:
        document(cli, jobs)
        return 0
    if not jobs:
        cli.say("no jobs yet; create one with `hermes cron create`")
        return 0
    for line in table([HEAD, *(_row(job, context.now) for job in jobs)]):
        cli.say(line)
    return 0


async def _warn_of_invalid_records(cli: Cli, context: CronCommandContext) -> None:
    if wrong := await context.service.invalid_records():
        verb, them = ("is", "it") if len(wrong) == 1 else ("are", "them")
        cli.note(
            f"{many(len(wrong), 'record')} of {tilde(cli.home.cron / 'jobs.json')} {verb} invalid;"
            f" fix or remove {them}: {plain_line('; '.join(wrong))}"
        )


def _row(job: Record, now: float) -> tuple[str, ...]:
    last = str(job["last_status"] or "")
    cells = (
        job["id"],
        job["name"],
        job["schedule_display"] or "invalid",
        job["state"],
        when(job["next_run_at"], now) if job["state"] in ("scheduled", "running") else "",
        f"{last} {when(job['last_run_at'], now)}".strip(),
        job["deliver"],
    )
    return tuple(_short(str(cell)) for cell in cells)


def _short(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= 40 else f"{line[:39]}…"


async def _runs(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    names = {str(job["id"]): str(job["name"]) for job in await context.service.list()}
    job_id = await _job_id(args.job, context)
    runs = await context.runs(job_id, args.limit)
    if args.json:
        document(cli, runs)
        return 0
    if not runs:
        cli.say("no runs yet")
    for run in runs:
        cli.say(_line(run, names, context))
        for told in (run.error, run.delivered):
            if told:
                cli.say(f"    {plain_line(told)}")
        if run.output and args.job:
            cli.say(f"    {plain_line(run.output)}")
    return 0


async def _job_id(name: str, context: CronCommandContext) -> str:
    """Return the id of a job, or of a removed job that still has a history."""
    try:
        return str((await context.service.get(name))["id"]) if name else ""
    except UsageError:
        if await context.runs(name.strip(), 1):
            return name.strip()
        raise


def _line(run: Run, names: dict[str, str], context: CronCommandContext) -> str:
    took = ""
    if run.started_at is not None and run.state != "missed":
        end = run.ended_at if run.state in ENDED_STATES and run.ended_at else context.now
        took = f", {human_duration(end - run.started_at)}"
    again = f", attempt {run.attempt}" if run.attempt > 1 else ""
    name = plain_line(names.get(run.job_id, run.job_id))
    due = format_local(run.instant, context.zone)
    return f"{MARKS[run.state]} {due}  {name}: {run.state}{took}{again}"


async def _status(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    now, jobs = context.now, await context.service.list()
    seen = current_heartbeat(cli, now)
    await _warn_of_invalid_records(cli, context)
    waiting = [job for job in jobs if job["state"] == "scheduled" and job["next_run_at"]]
    following = min(waiting, key=lambda job: str(job["next_run_at"]), default=None)
    runs = await context.runs("", 500)
    names = {str(job["id"]): str(job["name"]) for job in jobs}
    failures = [run for run in runs if run.state in TROUBLE and run.job_id in names][:5]
    left = {
        run.job_id for run in runs if run.state not in ENDED_STATES and is_owner_dead(run.owner)
    }
    states = Counter(CUT_OFF if job["id"] in left else str(job["state"]) for job in jobs)
    if args.json:
        document(
            cli,
            {
                "ticking": seen is not None,
                "ticker": seen,
                "jobs": states,
                "next": following,
                "failures": failures,
            },
        )
        return 0
    if seen is not None:
        cli.say(f"the {seen.role} runs the jobs (last tick {when(seen.at, now)})")
    else:
        cli.say(not_running_message(context))
    told = {CUT_OFF: f"{CUT_OFF} (continued when a process runs the jobs again)"}
    each = ", ".join(f"{count} {told.get(state, state)}" for state, count in sorted(states.items()))
    cli.say(f"{many(len(jobs), 'job')}{each and f': {each}'}")
    if following is not None:
        cli.say(f"next: {label(following)} {when(following['next_run_at'], now)}")
    for run in failures:
        cli.say(f"{_line(run, names, context)}: {plain_line(run.error)}")
    return 0

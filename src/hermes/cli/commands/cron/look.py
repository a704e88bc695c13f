"""`hermes cron list`, `runs` and `status`."""

import argparse
from collections import Counter

from hermes.cli.actions import Actions
from hermes.cli.commands.cron.access import Office, acting, label, looked_after, nobody, when
from hermes.cli.commands.sessions.arguments import positive
from hermes.cli.commands.sessions.wording import document, table
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.cron.job import Record
from hermes.cron.owner import is_dead
from hermes.cron.schedule import local
from hermes.store.claims import OVER, Run
from hermes.util.plain import plain_line
from hermes.util.text import human_duration, many

MARKS = {
    "ok": "✓", "silent": "✓", "failed": "✗", "lost": "✗", "missed": "·", "skipped": "·",
    "claimed": "…", "running": "…",
}  # fmt: skip
TROUBLE = ("failed", "lost")
CUT_OFF = "cut off"
"""The state of a job whose run was left by a process that is gone."""
HEAD: tuple[str, ...] = ("ID", "NAME", "SCHEDULE", "STATE", "NEXT", "LAST", "DELIVERS TO")


def add_actions(actions: Actions) -> None:
    actions.add("list", acting(_list), "the jobs, and when they run next", json=True)
    runs = actions.add("runs", acting(_runs), "what became of past runs", json=True)
    runs.add_argument("job", nargs="?", default="", metavar="JOB", help="only those of this job")
    runs.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")
    actions.add(
        "status", acting(_status), "who runs the jobs, what is next, what failed", json=True
    )


async def _list(args: argparse.Namespace, cli: Cli, office: Office) -> int:
    jobs = await office.desk.list()
    await _tell_left_out(cli, office)
    if args.json:
        document(cli, jobs)
        return 0
    if not jobs:
        cli.say("no jobs yet; `hermes cron create` makes one")
        return 0
    for line in table([HEAD, *(_row(job, office.now) for job in jobs)]):
        cli.say(line)
    return 0


async def _tell_left_out(cli: Cli, office: Office) -> None:
    if wrong := await office.desk.left_out():
        no_job, it = ("is no job", "it") if len(wrong) == 1 else ("are no jobs", "them")
        cli.note(
            f"{many(len(wrong), 'record')} of {tilde(cli.home.cron / 'jobs.json')} {no_job}; mend"
            f" or remove {it} there: {plain_line('; '.join(wrong))}"
        )


def _row(job: Record, now: float) -> tuple[str, ...]:
    last = str(job["last_status"] or "")
    cells = (
        job["id"],
        job["name"],
        job["schedule_display"] or "not understood",
        job["state"],
        when(job["next_run_at"], now) if job["state"] in ("scheduled", "running") else "",
        f"{last} {when(job['last_run_at'], now)}".strip(),
        job["deliver"],
    )
    return tuple(_short(str(cell)) for cell in cells)


def _short(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= 40 else f"{line[:39]}…"


async def _runs(args: argparse.Namespace, cli: Cli, office: Office) -> int:
    names = {str(job["id"]): str(job["name"]) for job in await office.desk.list()}
    job_id = await _job_id(args.job, office)
    runs = await office.runs(job_id, args.limit)
    if args.json:
        document(cli, runs)
        return 0
    if not runs:
        cli.say("no runs yet")
    for run in runs:
        cli.say(_line(run, names, office))
        for told in (run.error, run.delivered):
            if told:
                cli.say(f"    {plain_line(told)}")
        if run.output and args.job:
            cli.say(f"    {plain_line(run.output)}")
    return 0


async def _job_id(name: str, office: Office) -> str:
    """Also of a job that is gone: what it did is remembered for a while."""
    try:
        return str((await office.desk.get(name))["id"]) if name else ""
    except UsageError:
        if await office.runs(name.strip(), 1):
            return name.strip()
        raise


def _line(run: Run, names: dict[str, str], office: Office) -> str:
    took = ""
    if run.started_at is not None and run.state != "missed":
        end = run.ended_at if run.state in OVER and run.ended_at else office.now
        took = f", {human_duration(end - run.started_at)}"
    again = f", attempt {run.attempt}" if run.attempt > 1 else ""
    name = plain_line(names.get(run.job_id, run.job_id))
    due = local(run.instant, office.zone)
    return f"{MARKS[run.state]} {due}  {name}: {run.state}{took}{again}"


async def _status(args: argparse.Namespace, cli: Cli, office: Office) -> int:
    now, jobs = office.now, await office.desk.list()
    seen = looked_after(cli, now)
    await _tell_left_out(cli, office)
    waiting = [job for job in jobs if job["state"] == "scheduled" and job["next_run_at"]]
    following = min(waiting, key=lambda job: str(job["next_run_at"]), default=None)
    runs = await office.runs("", 500)
    names = {str(job["id"]): str(job["name"]) for job in jobs}
    failures = [run for run in runs if run.state in TROUBLE and run.job_id in names][:5]
    left = {run.job_id for run in runs if run.state not in OVER and is_dead(run.owner)}
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
        cli.say(f"the {seen.role} runs the jobs; it last looked {when(seen.at, now)}")
    else:
        cli.say(nobody(office))
    told = {CUT_OFF: f"{CUT_OFF} (taken up when the jobs run again)"}
    each = ", ".join(f"{count} {told.get(state, state)}" for state, count in sorted(states.items()))
    cli.say(f"{many(len(jobs), 'job')}{each and f': {each}'}")
    if following is not None:
        cli.say(f"next: {label(following)} {when(following['next_run_at'], now)}")
    for run in failures:
        cli.say(f"{_line(run, names, office)}: {plain_line(run.error)}")
    return 0

"""`hermes cron`: scheduled work."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import tzinfo
from math import ceil
from typing import Any

import msgspec

from hermes.app.app import App
from hermes.app.session_store import opened_store, store_exists
from hermes.cli.context import Act, Actions, Cli, Command, ProgressLine
from hermes.cli.extensions import load_extensions
from hermes.cli.output import positive, table
from hermes.cli.scheduling import offline_outbox, target_check
from hermes.cli.session import split_names
from hermes.config.home import tilde
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.core.ports import Clock
from hermes.cron import (
    Heartbeat,
    HeartbeatFile,
    Job,
    JobService,
    Record,
    RunCallback,
    Ticker,
    format_local,
    is_owner_dead,
    parse_timestamp,
    resolve_timezone,
)
from hermes.store.records import ENDED_STATES, Run
from hermes.store.session_store import RunClaims
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many, plain_line

# What the `hermes cron` actions share: access to the jobs, and how they are shown.


class CronCommandContext(msgspec.Struct, frozen=True):
    """What an action works with."""

    service: JobService
    claims: RunClaims | None
    """None if nothing was stored yet."""
    loaded: Loaded
    clock: Clock
    zone: tzinfo

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    async def runs(self, job_id: str = "", limit: int = 20) -> tuple[Run, ...]:
        return await self.claims.history(job_id, limit) if self.claims else ()


def current_heartbeat(cli: Cli, now: float) -> Heartbeat | None:
    """Return the heartbeat of the process that runs the jobs; None if there is none."""
    heartbeat = HeartbeatFile(cli.home.cron, "chat").read()
    return heartbeat if heartbeat is not None and heartbeat.is_alive(now) else None


Work = Callable[[argparse.Namespace, Cli, CronCommandContext], Awaitable[int]]


def with_jobs(work: Work) -> Act:
    """Return the action that calls `work` with the jobs. It does not create a store."""

    async def run(args: argparse.Namespace, cli: Cli) -> int:
        loaded, clock = cli.load(), SystemClock()
        url = loaded.settings.store.url
        async with AsyncExitStack() as stack:
            claims: RunClaims | None = None
            if store_exists(cli.home, url):
                store = await stack.enter_async_context(opened_store(cli.home, url, cli.note))
                claims = store.runs
            service = JobService.for_home(
                cli.home,
                loaded,
                claims,
                clock,
                check_target=target_check(cli.home, loaded),
                notify=cli.note,
            )
            zone = resolve_timezone(loaded.settings.timezone)
            return await work(args, cli, CronCommandContext(service, claims, loaded, clock, zone))

    def act(args: argparse.Namespace, cli: Cli) -> int:
        return asyncio.run(run(args, cli))

    return act


def not_running_message(context: CronCommandContext) -> str:
    where = " on this machine" if context.loaded.settings.store.url else ""
    return (
        f"no process{where} runs the jobs: start the gateway or a chat, or run due jobs now with"
        " `hermes cron tick`"
    )


def job_label(job: Record) -> str:
    return f"{plain_line(str(job['name']))} ({plain_line(str(job['id']))})"


def format_when(timestamp: object, now: float) -> str:
    """Return `in 5m 3s`, `now` or `2h ago`; "" without a timestamp."""
    instant = parse_timestamp(timestamp)
    if instant is None:
        return ""
    if instant > now:
        return f"in {human_duration(ceil(instant - now))}"
    return "now" if now - instant < 1 else f"{human_duration(now - instant)} ago"


# `hermes cron list`, `runs` and `status`.

MARKS = {
    "ok": "✓", "silent": "✓", "failed": "✗", "lost": "✗", "missed": "·", "skipped": "·",
    "claimed": "…", "running": "…",
}  # fmt: skip
TROUBLE = ("failed", "lost")
CUT_OFF = "cut off"
"""The state of a job whose run was left behind by a process that has ended."""
HEAD: tuple[str, ...] = ("ID", "NAME", "SCHEDULE", "STATE", "NEXT", "LAST", "DELIVERS TO")


def add_list_actions(actions: Actions) -> None:
    actions.add("list", with_jobs(_list), "list the jobs and their next run", json=True)
    runs = actions.add("runs", with_jobs(_runs), "show past runs and their results", json=True)
    runs.add_argument("job", nargs="?", default="", metavar="JOB", help="only those of this job")
    runs.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")
    actions.add(
        "status",
        with_jobs(_status),
        "show what runs the jobs, the next run and failures",
        json=True,
    )


async def _list(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    jobs = await context.service.list()
    await _warn_of_invalid_records(cli, context)
    if args.json:
        cli.json(jobs)
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
        format_when(job["next_run_at"], now) if job["state"] in ("scheduled", "running") else "",
        f"{last} {format_when(job['last_run_at'], now)}".strip(),
        job["deliver"],
    )
    return tuple(_shorten(str(cell)) for cell in cells)


def _shorten(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= 40 else f"{line[:39]}…"


async def _runs(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    names = {str(job["id"]): str(job["name"]) for job in await context.service.list()}
    job_id = await _job_id(args.job, context)
    runs = await context.runs(job_id, args.limit)
    if args.json:
        cli.json(runs)
        return 0
    if not runs:
        cli.say("no runs yet")
    for run in runs:
        cli.say(_run_line(run, names, context))
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


def _run_line(run: Run, names: dict[str, str], context: CronCommandContext) -> str:
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
        cli.json(
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
        cli.say(f"the {seen.role} runs the jobs (last tick {format_when(seen.at, now)})")
    else:
        cli.say(not_running_message(context))
    told = {CUT_OFF: f"{CUT_OFF} (continued when a process runs the jobs again)"}
    each = ", ".join(f"{count} {told.get(state, state)}" for state, count in sorted(states.items()))
    cli.say(f"{many(len(jobs), 'job')}{each and f': {each}'}")
    if following is not None:
        cli.say(f"next: {job_label(following)} {format_when(following['next_run_at'], now)}")
    for run in failures:
        cli.say(f"{_run_line(run, names, context)}: {plain_line(run.error)}")
    return 0


# `hermes cron create`, `edit`, `pause`, `resume`, `run` and `remove`.

SIMPLE = {
    "pause": "stop running a job until it is resumed",
    "resume": "run a paused job as scheduled again",
    "run": "run a job once, in addition to its schedule",
    "remove": "delete a job; its output files are kept",
}
DONE = {"pause": "paused", "resume": "resumed", "remove": "removed"}


def add_edit_actions(actions: Actions) -> None:
    for name in ("create", "add"):
        summary = "create a job" if name == "create" else "the same as create"
        create = actions.add(name, with_jobs(_create), summary, json=True)
        schedule = create.add_argument(
            "schedule", metavar="SCHEDULE", help='30m, "every 2h", "0 9 * * *", a time; in quotes'
        )
        prompt = create.add_argument("prompt", metavar="PROMPT", help="what to do, in quotes")
        # Both are optional. With `nargs="?"`, argparse would reject a positional argument
        # that follows an option.
        schedule.required = prompt.required = False
        create.add_argument("--skill", action="append", metavar="NAME", help="loaded before it")
        _add_job_arguments(create)
    edit = actions.add("edit", with_jobs(_edit), "change a job", json=True)
    edit.add_argument("job", metavar="JOB")
    edit.add_argument("--skill", action="append", metavar="NAME", help="these skills, no others")
    edit.add_argument(
        "--add-skill", action="append", default=[], metavar="NAME", help="this one too"
    )
    edit.add_argument(
        "--remove-skill", action="append", default=[], metavar="NAME", help="not this one"
    )
    edit.add_argument("--clear-skills", action="store_true", help="no skills")
    _add_job_arguments(edit)
    for name, summary in SIMPLE.items():
        parser = actions.add(name, _simple_action(name), summary, json=True)
        parser.add_argument("job", metavar="JOB")


def _add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the fields of a job; "" removes a value."""
    parser.add_argument("--schedule", dest="schedule_option", metavar="SCHEDULE", help="when")
    parser.add_argument("--prompt", dest="prompt_option", metavar="PROMPT", help="what to do")
    parser.add_argument("--name", help="what it is called; else the beginning of the prompt")
    parser.add_argument(
        "--deliver",
        action="append",
        metavar="TARGET",
        help="local (a file), telegram, telegram:CHAT:THREAD, …; may be given again",
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="how often in all; 0: no end")
    parser.add_argument("--workdir", metavar="FOLDER", help="where it works")
    parser.add_argument("--script", metavar="FILE", help="of scripts/, run before the prompt")
    parser.add_argument("--model", metavar="[PROVIDER:]MODEL", help="another than in chats")
    parser.add_argument("--provider", metavar="NAME", help="of the model")
    parser.add_argument("--base-url", metavar="URL", help="of the provider")
    parser.add_argument(
        "--context-from", action="append", metavar="JOB", help="give it that job's last result"
    )
    parser.add_argument("--toolsets", action="append", metavar="NAMES", help="these, no others")
    parser.add_argument("--budget-usd", type=float, metavar="N", help="most that one run may cost")


def _job_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the job that the command line sets."""
    said: dict[str, Any]
    plain = ("name", "repeat", "workdir", "script", "model", "provider", "base_url", "budget_usd")
    said = {name: getattr(args, name) for name in plain}
    lists = {
        "deliver": args.deliver,
        "skills": args.skill,
        "context_from": args.context_from,
        "enabled_toolsets": args.toolsets,
    }
    said |= {name: list(split_names(each)) for name, each in lists.items() if each is not None}
    said |= {"schedule": args.schedule_option, "prompt": args.prompt_option}
    return {name: value for name, value in said.items() if value is not None}


async def _create(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    said = _job_fields(args)
    schedule, prompt = args.schedule, args.prompt
    if args.schedule_option is not None and schedule is not None and prompt is None:
        schedule, prompt = (
            None,
            schedule,
        )  # the only positional text is the prompt
    for name, given in (("schedule", schedule), ("prompt", prompt)):
        if given is not None and said.setdefault(name, given) != given:
            raise UsageError(f"the {name} was given twice")
    job = await context.service.create(said)
    if args.json:
        cli.json(job)
        return 0
    following = format_when(job["next_run_at"], context.now)
    cli.say(f"created {job_label(job)}: {job['schedule_display']}, {following}")
    if current_heartbeat(cli, context.now) is None:
        cli.note(not_running_message(context))
    return 0


async def _edit(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    said = _job_fields(args)
    before = await context.service.get(args.job)
    if args.clear_skills or args.add_skill or args.remove_skill:
        skills = [] if args.clear_skills else said.get("skills") or before["skills"]
        kept = [name for name in skills if name not in split_names(args.remove_skill)]
        said["skills"] = [*kept, *split_names(args.add_skill)]
    job = await context.service.update(args.job, said)
    if args.json:
        cli.json(job)
        return 0
    following = format_when(job["next_run_at"], context.now)
    cli.say(
        f"updated {job_label(job)}: {', '.join(sorted(said))}{following and f'; next {following}'}"
    )
    return 0


def _start_message(cli: Cli, context: CronCommandContext) -> str:
    heartbeat = current_heartbeat(cli, context.now)
    if heartbeat is None:
        return "will run on the next tick; to run it now: hermes cron tick"
    if context.loaded.settings.store.url:
        return f"will run within {human_duration(heartbeat.every)}, in the {heartbeat.role}"
    return f"is starting now, in the {heartbeat.role}"


def _simple_action(name: str) -> Act:
    async def work(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
        before = (await context.service.get(args.job))["state"]
        job = await getattr(context.service, name)(args.job)
        if args.json:
            cli.json(job)
        elif name == "run":
            cli.say(f"{job_label(job)} {_start_message(cli, context)}")
        else:
            more = (
                f"; next {format_when(job['next_run_at'], context.now)}" if name == "resume" else ""
            )
            more += "; the run in progress continues" if before == "running" else ""
            cli.say(f"{DONE[name]} {job_label(job)}{more}")
        return 0

    typed: Work = work
    return with_jobs(typed)


# `hermes cron tick`: run all due jobs now.


def add_tick_actions(actions: Actions) -> None:
    actions.add(
        "tick",
        _tick,
        "run all due jobs and wait for them; exit code 1 if a run fails",
        json=True,
    )


def _tick(args: argparse.Namespace, cli: Cli) -> int:
    ended: list[Run] = []

    def seen(job: Job, run: Run) -> None:
        if run.state in ENDED_STATES:
            ended.append(run)
        if not args.json:
            cli.say(_format_tick_line(job, run))

    asyncio.run(_run_due_jobs(cli, seen))
    if args.json:
        cli.json(ended)
    elif not ended:
        cli.say("nothing is due")
    return 1 if any(run.state in ("failed", "lost") for run in ended) else 0


async def _run_due_jobs(cli: Cli, seen: RunCallback) -> None:
    loaded = cli.load()
    extensions = load_extensions(loaded, cli, None)
    progress = ProgressLine(cli.stderr)
    async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
        await extensions.settle()
        ticker = Ticker.for_app(app, app.clock, outbox=offline_outbox(app), on_run=seen)
        try:
            await ticker.drain()
        finally:
            await ticker.close()


def _format_tick_line(job: Job, run: Run) -> str:
    name = plain_line(job.name)
    if run.state not in ENDED_STATES:
        return f"… {name}"
    took = human_duration((run.ended_at or 0.0) - (run.started_at or run.ended_at or 0.0))
    mark = "✗" if run.state in ("failed", "lost") else "✓"
    told = "; ".join(plain_line(each) for each in (run.error, run.delivered) if each)
    return f"{mark} {name}: {run.state} after {took}{told and f': {told}'}"


EPILOG = """\
examples:
  hermes cron create "every 2h" "Summarise new mail" --deliver telegram
  hermes cron create "0 9 * * 1-5" "What is on today?" --name morning --skill calendar
  hermes cron create 30m "Remind me to stretch"
  hermes cron create 2030-01-31T09:00 "Wish Ada a happy birthday" --deliver telegram:CHAT
  hermes cron runs morning
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Jobs: at its time a new session gets the prompt, and its answer is delivered.\n"
        "They run while the gateway or a chat is open, or when `hermes cron tick` is called.\n\n"
        "A job is named by its id, the beginning of it, or its name."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    for add in (add_list_actions, add_edit_actions, add_tick_actions):
        add(actions)


COMMAND = Command(configure)

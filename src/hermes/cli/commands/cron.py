"""`hermes cron`: scheduled work."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import tzinfo
from math import ceil
from typing import Any

import msgspec

from hermes import cron
from hermes.app import App, opened_store, store_exists
from hermes.cli.context import (
    Cli,
    Command,
    CommandEnded,
    ProgressLine,
    arg,
    flag,
    repeated,
    table,
)
from hermes.cli.extensions import load_extensions
from hermes.cli.output import limit
from hermes.cli.scheduling import configured_platforms, offline_outbox, target_check
from hermes.cli.session import split_names
from hermes.config.home import tilde
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.store import ENDED_STATES, Run, RunClaims
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many, plain_line

MARKS = {
    "ok": "✓", "silent": "✓", "failed": "✗", "lost": "✗", "missed": "·", "skipped": "·",
    "undelivered": "✗", "claimed": "…", "running": "…",
}  # fmt: skip
TITLES = ("ID", "NAME", "SCHEDULE", "STATE", "NEXT", "LAST", "DELIVERS TO")
TROUBLE = ("failed", "lost", "undelivered")
CUT_OFF = "cut off"  #: The state of a job whose run was left behind by a process that has ended.


class CronCommandContext(msgspec.Struct, frozen=True):
    """What an action works with."""

    service: cron.JobService
    claims: RunClaims | None  #: None if nothing was stored yet.
    loaded: Loaded
    now: float
    zone: tzinfo
    heartbeat: cron.Heartbeat | None  #: The process that runs the jobs, if there is one.

    async def runs(self, job_id: str = "", limit: int = 20) -> tuple[Run, ...]:
        return await self.claims.history(job_id, limit) if self.claims else ()

    @property
    def not_running_message(self) -> str:
        where = " on this machine" if self.loaded.settings.store.url else ""
        return (
            f"no process{where} runs the jobs: start the gateway or a chat, or run due jobs now"
            " with `hermes cron tick`"
        )

    def when(self, timestamp: object) -> str:
        """Return `in 5m 3s`, `now` or `2h ago`; "" without a timestamp."""
        instant = cron.parse_timestamp(timestamp)
        if instant is None:
            return ""
        if instant > self.now:
            return f"in {human_duration(ceil(instant - self.now))}"
        return "now" if self.now - instant < 1 else f"{human_duration(self.now - instant)} ago"


@asynccontextmanager
async def open_jobs(cli: Cli) -> AsyncIterator[CronCommandContext]:
    """Open the jobs. This does not create a store."""
    loaded, clock = cli.load(), SystemClock()
    url, now = loaded.settings.store.url, clock.now().timestamp()
    async with AsyncExitStack() as stack:
        claims: RunClaims | None = None
        if store_exists(cli.home, url):
            store = await stack.enter_async_context(opened_store(cli.home, url, cli.note))
            claims = store.runs
        check = target_check(cli.home, loaded)
        service = cron.JobService.for_home(
            cli.home, loaded, claims, clock, check_target=check, notify=cli.note
        )
        zone = cron.resolve_timezone(loaded.settings.timezone)
        heartbeat = cron.HeartbeatFile(cli.home.cron, "chat").read()
        alive = heartbeat if heartbeat is not None and heartbeat.is_alive(now) else None
        yield CronCommandContext(service, claims, loaded, now, zone, alive)


COMMAND = Command("cron", needs=open_jobs)


def job_label(job: cron.Record) -> str:
    return f"{plain_line(str(job['name']))} ({plain_line(str(job['id']))})"


# `hermes cron list`, `runs` and `status`.


@COMMAND.action("list", "list the jobs and their next run", json=True)
async def _list(_args: Namespace, cli: Cli, context: CronCommandContext) -> None:
    def cells(job: cron.Record) -> list[str]:
        is_active = job["state"] in ("scheduled", "running")
        following = context.when(job["next_run_at"]) if is_active else ""
        last = f"{job['last_status'] or ''} {context.when(job['last_run_at'])}".strip()
        schedule = job["schedule_display"] or "invalid"
        row = (job["id"], job["name"], schedule, job["state"], following, last, job["deliver"])
        texts = [plain_line(str(cell)) for cell in row]
        return [text if len(text) <= 40 else f"{text[:39]}…" for text in texts]

    jobs = await context.service.list()
    await _warn_of_invalid_records(cli, context)
    lines = table([TITLES, *map(cells, jobs)])
    cli.emit(jobs, lines, empty="no jobs yet; create one with `hermes cron create`")


async def _warn_of_invalid_records(cli: Cli, context: CronCommandContext) -> None:
    if wrong := await context.service.invalid_records():
        verb, them = ("is", "it") if len(wrong) == 1 else ("are", "them")
        cli.note(
            f"{many(len(wrong), 'record')} of {tilde(cli.home.cron / 'jobs.json')} {verb} invalid;"
            f" fix or remove {them}: {plain_line('; '.join(wrong))}"
        )


@COMMAND.action(
    "runs",
    "show past runs and their results",
    arg("job", nargs="?", default="", metavar="JOB", help="only those of this job"),
    limit(20),
    json=True,
)
async def _runs(args: Namespace, cli: Cli, context: CronCommandContext) -> None:
    names = {str(job["id"]): str(job["name"]) for job in await context.service.list()}
    job_id = args.job.strip()
    try:
        job_id = str((await context.service.get(args.job))["id"]) if args.job else ""
    except UsageError:
        if not await context.runs(job_id, 1):  # a removed job can still have a history
            raise

    def lines(run: Run) -> str:
        more = (run.error, run.delivered, run.output if args.job else "")
        details = (f"    {plain_line(text)}" for text in more if text)
        return "\n".join((_run_line(run, names, context), *details))

    cli.emit(await context.runs(job_id, args.limit), line=lines, empty="no runs yet")


def _run_line(run: Run, names: dict[str, str], context: CronCommandContext) -> str:
    took = ""
    if run.started_at is not None and run.state != "missed":
        end = run.ended_at if run.state in ENDED_STATES and run.ended_at else context.now
        took = f", {human_duration(end - run.started_at)}"
    again = f", attempt {run.attempt}" if run.attempt > 1 else ""
    name = plain_line(names.get(run.job_id, run.job_id))
    due = cron.format_local(run.instant, context.zone)
    return f"{MARKS[run.state]} {due}  {name}: {run.state}{took}{again}"


@COMMAND.action("status", "show what runs the jobs, the next run and failures", json=True)
async def _status(_args: Namespace, cli: Cli, context: CronCommandContext) -> None:
    jobs, seen = await context.service.list(), context.heartbeat
    await _warn_of_invalid_records(cli, context)
    waiting = [job for job in jobs if job["state"] == "scheduled" and job["next_run_at"]]
    following = min(waiting, key=lambda job: str(job["next_run_at"]), default=None)
    runs = await context.runs("", 500)
    names = {str(job["id"]): str(job["name"]) for job in jobs}
    failures = [run for run in runs if run.state in TROUBLE and run.job_id in names][:5]
    left = {
        run.job_id
        for run in runs
        if run.state not in ENDED_STATES and cron.is_owner_dead(run.owner)
    }
    states = Counter(CUT_OFF if job["id"] in left else str(job["state"]) for job in jobs)
    lines = [context.not_running_message]
    if seen is not None:
        lines = [f"the {seen.role} runs the jobs (last tick {context.when(seen.at)})"]
    labels = {CUT_OFF: f"{CUT_OFF} (continued when a process runs the jobs again)"}
    each = ", ".join(f"{n} {labels.get(state, state)}" for state, n in sorted(states.items()))
    lines.append(f"{many(len(jobs), 'job')}{each and f': {each}'}")
    if following is not None:
        lines.append(f"next: {job_label(following)} {context.when(following['next_run_at'])}")
    lines += [
        f"{_run_line(run, names, context)}: {plain_line(run.error or run.delivered)}"
        for run in failures
    ]
    facts = {"ticking": seen is not None, "ticker": seen, "jobs": states, "next": following}
    cli.emit({**facts, "failures": failures}, lines)


# `hermes cron create`, `edit`, `pause`, `resume`, `run` and `remove`.

JOB = arg("job", metavar="JOB")
JOB_FIELDS = (
    arg("--schedule", dest="schedule_option", metavar="SCHEDULE", help="when"),
    arg("--prompt", dest="prompt_option", metavar="PROMPT", help="what to do"),
    arg("--name", help="its name; default: the start of the prompt"),
    arg("--deliver", action="append", metavar="TARGET", help="local, telegram:CHAT, …; repeatable"),
    arg("--repeat", type=int, metavar="N", help="number of runs; 0: no limit"),
    arg("--workdir", metavar="FOLDER", help="where it works"),
    arg("--script", metavar="FILE", help="of scripts/, run before the prompt"),
    arg("--model", metavar="[PROVIDER:]MODEL", help="the model, if not the usual one"),
    arg("--provider", metavar="NAME", help="of the model"),
    arg("--base-url", metavar="URL", help="of the provider"),
    arg("--context-from", action="append", metavar="JOB", help="give it that job's last result"),
    arg("--toolsets", action="append", metavar="NAMES", help="only these toolsets"),
    arg("--budget-usd", type=float, metavar="N", help="spending limit of one run"),
)
"""Options for the fields of a job; "" removes a value."""


def _job_fields(args: Namespace) -> dict[str, Any]:
    """Return the fields of the job that the command line sets."""
    plain = ("name", "repeat", "workdir", "script", "model", "provider", "base_url", "budget_usd")
    fields: dict[str, Any] = {name: getattr(args, name) for name in plain}
    lists = {"skills": args.skill, "enabled_toolsets": args.toolsets}
    lists |= {"deliver": args.deliver, "context_from": args.context_from}
    fields |= {name: list(split_names(each)) for name, each in lists.items() if each is not None}
    fields |= {"schedule": args.schedule_option, "prompt": args.prompt_option}
    return {name: value for name, value in fields.items() if value is not None}


def _add_positionals(parser: ArgumentParser) -> None:
    """Add two optional arguments.

    With `nargs="?"`, argparse would reject a positional argument that follows an option.
    """
    schedule = '30m, "every 2h", "weekdays at 8:30", "0 9 * * *", a time; in quotes'
    for name, text in (("schedule", schedule), ("prompt", "what to do, in quotes")):
        parser.add_argument(name, metavar=name.upper(), help=text).required = False


@COMMAND.action(
    "create",
    "create a job",
    arg("--skill", action="append", metavar="NAME", help="a skill to load first; repeatable"),
    *JOB_FIELDS,
    json=True,
    aliases=("add",),
    setup=_add_positionals,
)
async def _create(args: Namespace, cli: Cli, context: CronCommandContext) -> None:
    fields = _job_fields(args)
    schedule, prompt = args.schedule, args.prompt
    if args.schedule_option is not None and schedule is not None and prompt is None:
        schedule, prompt = None, schedule  # the only positional text is the prompt
    for name, given in (("schedule", schedule), ("prompt", prompt)):
        if given is not None and fields.setdefault(name, given) != given:
            raise UsageError(f"the {name} was given twice")
    if not fields and not args.json:
        fields = _ask_fields(cli, context)
    job = await context.service.create(fields)
    following = context.when(job["next_run_at"])
    cli.emit(job, f"created {job_label(job)}: {job['schedule_display']}, {following}")
    if context.heartbeat is None and not args.json:
        cli.note(context.not_running_message)


def _ask_fields(cli: Cli, context: CronCommandContext) -> dict[str, Any]:
    """Ask for the fields of a new job; the schedule until it is valid. Raises `UsageError` without
    a terminal."""
    fields: dict[str, Any] = {}
    if not cli.interactive:
        example = 'hermes cron create "weekdays at 8:30" "What is new in my inbox?"'
        raise UsageError(
            "a job needs a schedule and a prompt", hint=f"{example}; on a terminal it asks for both"
        )
    while "schedule" not in fields:
        text = cli.ask("When (such as 30m, every 2h, weekdays at 8:30)? ").strip()
        if not text:
            cli.say("nothing was created")
            raise CommandEnded(1)
        try:
            parsed = cron.parse_schedule(text, context.now, context.zone)
        except UsageError as error:
            cli.note(f"{error}{error.hint and f'; {error.hint}'}")
            continue
        fields["schedule"] = text
        first = cron.next_after(parsed, context.now, context.zone)
        if first is not None:
            cli.say(f"  first run: {cron.format_local(first, context.zone)}")
    fields["prompt"] = cli.ask("What should the agent do? ").strip()
    if name := cli.ask("Name (Enter: the start of the prompt)? ").strip():
        fields["name"] = name
    if targets := cli.ask("Deliver to (Enter: local; or telegram, telegram:CHAT, …)? ").strip():
        fields["deliver"] = list(split_names([targets]))
    return fields


@COMMAND.action(
    "edit",
    "change a job",
    JOB,
    arg("--skill", action="append", metavar="NAME", help="these skills, no others"),
    repeated("--add-skill", metavar="NAME", help="this one too"),
    repeated("--remove-skill", metavar="NAME", help="not this one"),
    flag("--clear-skills", help="no skills"),
    *JOB_FIELDS,
    json=True,
)
async def _edit(args: Namespace, cli: Cli, context: CronCommandContext) -> None:
    fields = _job_fields(args)
    before = await context.service.get(args.job)
    if args.clear_skills or args.add_skill or args.remove_skill:
        skills = [] if args.clear_skills else fields.get("skills") or before["skills"]
        kept = [name for name in skills if name not in split_names(args.remove_skill)]
        fields["skills"] = [*kept, *split_names(args.add_skill)]
    job = await context.service.update(args.job, fields)
    following = context.when(job["next_run_at"])
    changed = ", ".join(sorted(fields))
    cli.emit(job, f"updated {job_label(job)}: {changed}{following and f'; next {following}'}")


@COMMAND.action(
    "run",
    "run a job now, in addition to its schedule",
    JOB,
    flag("--queue", help="do not wait: the next tick runs it"),
    json=True,
)
async def _run(args: Namespace, cli: Cli, context: CronCommandContext) -> int:
    job, heartbeat = await context.service.run(args.job), context.heartbeat
    if heartbeat is None and not args.queue:
        ended = await _run_jobs(args, cli, lambda ticker: ticker.run_requested(job["id"]))
        cli.emit({**job, "runs": ended}, [], empty="")
        if not ended and not args.json:
            cli.say(f"{job_label(job)} is running already; it will run again afterwards")
        return 1 if any(run.state in TROUBLE for run in ended) else 0
    if heartbeat is None:
        start = "will run on the next tick; to run it now: hermes cron tick"
    elif context.loaded.settings.store.url:
        start = f"will run within {human_duration(heartbeat.every)}, in the {heartbeat.role}"
    else:
        start = f"is starting now, in the {heartbeat.role}"
    cli.emit(job, f"{job_label(job)} {start}; to see the result: hermes cron runs {job['id']}")
    return 0


def _add_change(name: str, summary: str, done: str) -> None:
    """Add an action that calls the method of this name of the service."""

    @COMMAND.action(name, summary, JOB, json=True)
    async def _change(args: Namespace, cli: Cli, context: CronCommandContext) -> None:
        is_running = (await context.service.get(args.job))["state"] == "running"
        job = await getattr(context.service, name)(args.job)
        following = f"; next {context.when(job['next_run_at'])}" if name == "resume" else ""
        running = "; the run in progress continues" if is_running else ""
        cli.emit(job, f"{done} {job_label(job)}{following}{running}")


_add_change("pause", "stop running a job until it is resumed", "paused")
_add_change("resume", "run a paused job as scheduled again", "resumed")
_add_change("remove", "delete a job; its output files are kept", "removed")

# `hermes cron tick`: run all due jobs now.


@COMMAND.action(
    "tick", "run all due jobs and wait for them; exit code 1 if a run fails", json=True, needs=None
)
async def _tick(args: Namespace, cli: Cli) -> int:
    ended = await _run_jobs(args, cli, cron.Ticker.drain)
    cli.emit(ended, [], empty="nothing is due")
    return 1 if any(run.state in TROUBLE for run in ended) else 0


async def _run_jobs(
    args: Namespace, cli: Cli, work: Callable[[cron.Ticker], Awaitable[None]]
) -> list[Run]:
    """Run jobs in this process and show them; return the runs that have ended."""
    ended: list[Run] = []

    def on_run(job: cron.Job, run: Run) -> None:
        if run.state in ENDED_STATES:
            ended.append(run)
        if not args.json:
            cli.say(_format_tick_line(job, run))

    loaded = cli.load()
    extensions = load_extensions(loaded, cli, None)
    progress = ProgressLine(cli.stderr)
    async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
        await extensions.settle()
        platforms = configured_platforms(loaded)
        ticker = cron.Ticker.for_app(
            app, app.clock, outbox=offline_outbox(app), on_run=on_run, platforms=platforms
        )
        try:
            await work(ticker)
        finally:
            await ticker.close()
    return ended


def _format_tick_line(job: cron.Job, run: Run) -> str:
    name = plain_line(job.name)
    if run.state not in ENDED_STATES:
        return f"… {name}"
    took = human_duration((run.ended_at or 0.0) - (run.started_at or run.ended_at or 0.0))
    mark = "✗" if run.state in TROUBLE else "✓"
    details = "; ".join(plain_line(each) for each in (run.error, run.delivered) if each)
    return f"{mark} {name}: {run.state} after {took}{details and f': {details}'}"

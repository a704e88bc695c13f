"""`hermes cron create`, `edit`, `pause`, `resume`, `run` and `remove`."""

import argparse
from typing import Any

from hermes.cli.actions import Act, Actions
from hermes.cli.commands.cron.access import (
    CronCommandContext,
    Work,
    acting,
    current_heartbeat,
    label,
    not_running_message,
    when,
)
from hermes.cli.commands.sessions.wording import document
from hermes.cli.context import Cli
from hermes.cli.starting import words
from hermes.core.errors import UsageError
from hermes.util.text import human_duration

SIMPLE = {
    "pause": "stop running a job until it is resumed",
    "resume": "run a paused job as scheduled again",
    "run": "run a job once, in addition to its schedule",
    "remove": "delete a job; its output files are kept",
}
DONE = {"pause": "paused", "resume": "resumed", "remove": "removed"}


def add_actions(actions: Actions) -> None:
    for name in ("create", "add"):
        summary = "create a job" if name == "create" else "the same as create"
        create = actions.add(name, acting(_create), summary, json=True)
        schedule = create.add_argument(
            "schedule", metavar="SCHEDULE", help='30m, "every 2h", "0 9 * * *", a time; in quotes'
        )
        prompt = create.add_argument("prompt", metavar="PROMPT", help="what to do, in quotes")
        # As options they may be left out here. With `nargs="?"` an option between them would end
        # the places: what follows it would belong nowhere.
        schedule.required = prompt.required = False
        create.add_argument("--skill", action="append", metavar="NAME", help="loaded before it")
        _facts(create)
    edit = actions.add("edit", acting(_edit), "change a job", json=True)
    edit.add_argument("job", metavar="JOB")
    edit.add_argument("--skill", action="append", metavar="NAME", help="these skills, no others")
    edit.add_argument(
        "--add-skill", action="append", default=[], metavar="NAME", help="this one too"
    )
    edit.add_argument(
        "--remove-skill", action="append", default=[], metavar="NAME", help="not this one"
    )
    edit.add_argument("--clear-skills", action="store_true", help="no skills")
    _facts(edit)
    for name, summary in SIMPLE.items():
        parser = actions.add(name, _simple(name), summary, json=True)
        parser.add_argument("job", metavar="JOB")


def _facts(parser: argparse.ArgumentParser) -> None:
    """What can be said of a job; "" takes it away."""
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


def _said(args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of the job."""
    said: dict[str, Any]
    plain = ("name", "repeat", "workdir", "script", "model", "provider", "base_url", "budget_usd")
    said = {name: getattr(args, name) for name in plain}
    lists = {
        "deliver": args.deliver,
        "skills": args.skill,
        "context_from": args.context_from,
        "enabled_toolsets": args.toolsets,
    }
    said |= {name: list(words(each)) for name, each in lists.items() if each is not None}
    said |= {"schedule": args.schedule_option, "prompt": args.prompt_option}
    return {name: value for name, value in said.items() if value is not None}


async def _create(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    said = _said(args)
    schedule, prompt = args.schedule, args.prompt
    if args.schedule_option is not None and schedule is not None and prompt is None:
        schedule, prompt = None, schedule  # the one text beside --schedule is the prompt
    for name, given in (("schedule", schedule), ("prompt", prompt)):
        if given is not None and said.setdefault(name, given) != given:
            raise UsageError(f"the {name} was given twice")
    job = await context.service.create(said)
    if args.json:
        document(cli, job)
        return 0
    following = when(job["next_run_at"], context.now)
    cli.say(f"created {label(job)}: {job['schedule_display']}, {following}")
    if current_heartbeat(cli, context.now) is None:
        cli.note(not_running_message(context))
    return 0


async def _edit(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
    said = _said(args)
    before = await context.service.get(args.job)
    if args.clear_skills or args.add_skill or args.remove_skill:
        skills = [] if args.clear_skills else said.get("skills") or before["skills"]
        kept = [name for name in skills if name not in words(args.remove_skill)]
        said["skills"] = [*kept, *words(args.add_skill)]
    job = await context.service.update(args.job, said)
    if args.json:
        document(cli, job)
        return 0
    following = when(job["next_run_at"], context.now)
    cli.say(f"updated {label(job)}: {', '.join(sorted(said))}{following and f'; next {following}'}")
    return 0


def _start_message(cli: Cli, context: CronCommandContext) -> str:
    heartbeat = current_heartbeat(cli, context.now)
    if heartbeat is None:
        return "will run on the next tick; to run it now: hermes cron tick"
    if context.loaded.settings.store.url:
        return f"will run within {human_duration(heartbeat.every)}, in the {heartbeat.role}"
    return f"is starting now, in the {heartbeat.role}"


def _simple(name: str) -> Act:
    async def work(args: argparse.Namespace, cli: Cli, context: CronCommandContext) -> int:
        before = (await context.service.get(args.job))["state"]
        job = await getattr(context.service, name)(args.job)
        if args.json:
            document(cli, job)
        elif name == "run":
            cli.say(f"{label(job)} {_start_message(cli, context)}")
        else:
            more = f"; next {when(job['next_run_at'], context.now)}" if name == "resume" else ""
            more += "; the run in progress continues" if before == "running" else ""
            cli.say(f"{DONE[name]} {label(job)}{more}")
        return 0

    typed: Work = work
    return acting(typed)

"""`hermes cron tick`: run all due jobs now."""

import argparse
import asyncio

from hermes.app.app import App
from hermes.cli.actions import Actions
from hermes.cli.context import Cli
from hermes.cli.extending import extended
from hermes.cli.kept_mail import kept_mail
from hermes.cli.progress import ProgressLine
from hermes.cron import Job, RunCallback, Ticker
from hermes.store.records import ENDED_STATES, Run
from hermes.util.plain import plain_line
from hermes.util.text import human_duration


def add_actions(actions: Actions) -> None:
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
            cli.say(_line(job, run))

    asyncio.run(_run(cli, seen))
    if args.json:
        cli.json(ended)
    elif not ended:
        cli.say("nothing is due")
    return 1 if any(run.state in ("failed", "lost") for run in ended) else 0


async def _run(cli: Cli, seen: RunCallback) -> None:
    loaded = cli.load()
    extensions = extended(loaded, cli, None)
    progress = ProgressLine(cli.stderr)
    async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
        await extensions.settle()
        ticker = Ticker.for_app(app, app.clock, outbox=kept_mail(app), on_run=seen)
        try:
            await ticker.drain()
        finally:
            await ticker.close()


def _line(job: Job, run: Run) -> str:
    name = plain_line(job.name)
    if run.state not in ENDED_STATES:
        return f"… {name}"
    took = human_duration((run.ended_at or 0.0) - (run.started_at or run.ended_at or 0.0))
    mark = "✗" if run.state in ("failed", "lost") else "✓"
    told = "; ".join(plain_line(each) for each in (run.error, run.delivered) if each)
    return f"{mark} {name}: {run.state} after {took}{told and f': {told}'}"

"""A driver process for tests that kill it: `python -m tests.fakes.batch_driver SESSION`."""

import asyncio
import sys
from pathlib import Path

import msgspec

from hermes.batch import BatchRun, Progress, RunOptions
from tests.fakes.batch_work import LineSpec


class Session(msgspec.Struct):
    folder: str
    spec: LineSpec
    options: RunOptions


def report(progress: Progress) -> None:
    sys.stdout.write(f"{progress.counts}\n")
    sys.stdout.flush()


async def execute(session: Session) -> None:
    async with BatchRun(Path(session.folder), session.spec, session.options, report) as run:
        outcome = await run.execute()
    sys.stdout.write(f"{outcome.ended}\n")


if __name__ == "__main__":
    asyncio.run(execute(msgspec.json.decode(sys.argv[1], type=Session)))

"""`hermes capture`: the capture endpoint for any agent and any trainer."""

import asyncio
import signal
from argparse import Namespace
from pathlib import Path
from typing import get_args

from hermes.cli.context import Cli, Command, arg
from hermes.core.errors import UsageError
from hermes.envs import (
    CaptureServer,
    RolloutResult,
    ServerKind,
    Trace,
    list_parsers,
    write_traces,
)
from hermes.util.text import many

CHECK_SECONDS = 1.0  #: How often idle rollouts are looked for.


async def run(args: Namespace, cli: Cli) -> int:
    key = cli.load().variable(args.key_env) if args.key_env else ""
    if key is None:
        raise UsageError(
            f"{args.key_env} is not set", hint="set it in the environment or in the .env file"
        )
    output: Path = args.output
    _check_output(output)
    written = 0

    def write(trace: Trace) -> None:
        nonlocal written
        write_traces(output, [trace])
        written += 1

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with CaptureServer(
        args.server,
        args.kind,
        model=args.model,
        api_key=key,
        parser=args.parser,
        host=args.host,
        port=args.port,
        on_finish=write,
    ) as capture:
        root = capture.url("NAME").removesuffix("/NAME/v1")
        # One write: a program that reads the first line may call before a second line is written.
        cli.say(
            f"capture endpoint at {root}/v1; Ctrl-C ends it\n"
            f"base URL of a rollout: {root}/NAME/v1, or {root}/v1 with NAME as the API key\n"
            f'end of a rollout: POST {root}/NAME/finish {{"reward": 1.0}}; traces: {output}'
        )
        while not stop.is_set():
            if args.idle:
                _finish_rollouts(capture, cli, "idle", args.idle)
            try:
                await asyncio.wait_for(stop.wait(), CHECK_SECONDS if args.idle else None)
            except TimeoutError:
                continue
    # After the server has ended its calls, what is left is complete.
    complete = _finish_rollouts(capture, cli, "stopped", 0.0)
    cli.say(f"{many(written, 'trace')} written to {output}")
    return 0 if complete else 1


def _finish_rollouts(capture: CaptureServer, cli: Cli, reason: str, idle: float) -> bool:
    """Write the rollouts that were not finished, without a reward. Return False if one cannot be
    written, which is kept."""
    complete = True
    for name in capture.rollouts(idle=idle):
        try:
            capture.finish(name, RolloutResult(exit_reason=reason))
        except OSError as error:
            complete = False
            cli.note(f"the trace of {name} is not written: {error}")
    return complete


def _check_output(path: Path) -> None:
    """Raise `UsageError` now rather than when the first rollout is finished."""
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        hint = "choose another file with --output"
        raise UsageError(f"cannot write {path}: {error.strerror}", hint=hint) from None


COMMAND = Command(
    "capture",
    run,
    "record the tokens of any agent, between it and a model server",
    arg("--server", required=True, metavar="URL", help="base URL of the model server"),
    arg("--kind", required=True, choices=get_args(ServerKind), help="what the server is"),
    arg(
        "--parser",
        default="",
        choices=("", *list_parsers()),
        metavar="NAME",
        help=f"format of the model's tool calls (default: hermes): {', '.join(list_parsers())}",
    ),
    arg("--model", default="", help="model name (default: as the agent asks)"),
    arg("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"),
    arg("--port", type=int, default=0, help="port to listen on (default: a free one)"),
    arg(
        "--output",
        type=Path,
        default=Path("traces.jsonl"),
        metavar="FILE",
        help="where finished rollouts are added, a line each (default: traces.jsonl)",
    ),
    arg(
        "--idle",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="finish a rollout without a reward after this time without calls (default: never)",
    ),
    arg(
        "--key-env",
        default="",
        metavar="VARIABLE",
        help="variable that holds the API key of the model server",
    ),
)

"""`hermes acp`: the agent for an editor, over the Agent Client Protocol."""

import asyncio
from argparse import Namespace
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

from hermes.acp import serve_stdio
from hermes.cli.context import Cli, Command, arg
from hermes.cli.main import run_hermes
from hermes.core.errors import UsageError

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.core.ports import Scheduler


def run(args: Namespace, cli: Cli) -> int:
    if args.action:
        # Editors append the arguments of a terminal login to the command of the agent.
        return run_hermes(cli, args.action)
    if cli.stdin.isatty():
        raise UsageError(
            "an editor starts this command and talks to it through pipes",
            hint="add `hermes acp` as an agent in your editor; see docs/guide/editors.md",
        )
    asyncio.run(_serve(cli))
    return 0


async def _serve(cli: Cli) -> None:
    async with AsyncExitStack() as stack:

        async def open_app() -> "App":
            # The answer to `initialize` does not wait for these.
            from hermes.app import App
            from hermes.cli.extensions import load_extensions
            from hermes.cli.session import LazyScheduler, connect_trainer
            from hermes.compat.runtime import TextProgress

            loaded = cli.load()
            extensions = load_extensions(loaded, cli)
            app = App(cli.home, loaded, TextProgress(cli.note), cli.note, extensions=extensions)
            await stack.enter_async_context(app)
            app.services.scheduler = cast("Scheduler", LazyScheduler(app))
            connect_trainer(app)
            await extensions.settle()
            return app

        await serve_stdio(cli.home, open_app)


COMMAND = Command(
    "acp",
    run,
    "serve an editor over the Agent Client Protocol",
    arg("action", nargs="?", choices=["setup"], help="what editors run to sign in"),
)

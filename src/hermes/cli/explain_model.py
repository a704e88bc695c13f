"""What the settings of the model come to. Loaded only where it is asked for."""

import asyncio

from hermes.app.providers import Providers
from hermes.cli.context import Cli
from hermes.cli.progress import ProgressLine
from hermes.ops.status import Resolution, main_resolution
from hermes.util.clock import SystemClock


def resolution(cli: Cli) -> Resolution:
    async def resolve() -> Resolution:
        loaded = cli.load()
        async with Providers(cli.home, loaded, SystemClock(), ProgressLine(cli.stderr)) as found:
            return main_resolution(loaded, found)

    return asyncio.run(resolve())

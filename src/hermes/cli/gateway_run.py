"""`gateway.run`: the gateway of the home in force, with its scheduled jobs, in a script."""

import asyncio
import time

from hermes import __version__
from hermes.app.compat.runtime import tell
from hermes.cli.scheduling import GatewayJobs
from hermes.config.home import current_home
from hermes.config.loader import load
from hermes.gateway import runner
from hermes.gateway.documented.config import GatewayConfig, Platform, platform_named
from hermes.gateway.platforms.kit.contract import Adapter
from hermes.gateway.process import claimed, running, stop
from hermes.gateway.services import GRACE_SECONDS, RESTART


class GatewayRunner:
    """Runs the gateway in a script. Without a `config` it uses the settings.

    A home has at most one gateway. Start it in the main thread: it installs signal handlers.
    """

    def __init__(self, config: GatewayConfig | None = None) -> None:
        self._home = current_home()
        self._loaded = load(self._home, config.overrides() if config else {})
        self._inner: runner.GatewayRunner | None = None
        self._task: asyncio.Task[int] | None = None

    @property
    def adapters(self) -> dict[Platform | str, Adapter]:
        """The connected adapters."""
        # The runner has its connections once it has begun.
        connections = getattr(self._inner, "connections", ())
        return {platform_named(each.manifest.name): each.adapter for each in connections}

    @property
    def drain_seconds(self) -> float:
        """Seconds that running turns get before a stop."""
        return self._loaded.settings.gateway.drain_seconds

    async def start(self) -> bool:
        """Start. Platforms connect, and reconnect, in the background.

        Raises `HermesError` if nothing is configured or another gateway runs.
        """
        if self._task is not None:
            return True
        inner = runner.GatewayRunner(self._home, self._loaded, note=tell, scheduling=GatewayJobs())
        self._inner, self._task = inner, asyncio.create_task(self._run(inner))
        began = asyncio.create_task(inner.began.wait())
        try:
            await asyncio.wait({began, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            began.cancel()
        if self._task.done():
            self._task.result()
        return True

    async def stop(self) -> None:
        """Stop, after running turns have had `drain_seconds`."""
        if self._inner is not None:
            self._inner.stop()
            await self.wait_for_shutdown()

    async def wait_for_shutdown(self) -> int:
        """Wait for a signal, `stop` or /restart; return the exit code."""
        return 0 if self._task is None else await self._task

    async def _run(self, inner: runner.GatewayRunner) -> int:
        with claimed(self._home, now=time.time(), version=__version__):
            return await inner.run()


async def start_gateway(config: GatewayConfig | None = None, replace: bool = False) -> bool:
    """Run until a signal. Return False if it should be started again, as after /restart.

    `replace` stops a running gateway first.
    """
    here = GatewayRunner(config)
    if replace and (found := running(current_home().root)):
        await asyncio.to_thread(stop, found, seconds=here.drain_seconds + GRACE_SECONDS, force=True)
    await here.start()
    return await here.wait_for_shutdown() != RESTART

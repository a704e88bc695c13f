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
    """Without a `config` it is set up as the settings say. Only one runs in a home; call it in the
    main thread, since it heeds signals."""

    def __init__(self, config: GatewayConfig | None = None) -> None:
        self._home = current_home()
        self._loaded = load(self._home, config.overrides() if config else {})
        self._inner: runner.GatewayRunner | None = None
        self._task: asyncio.Task[int] | None = None

    @property
    def adapters(self) -> dict[Platform | str, Adapter]:
        """Those that are connected now."""
        lines = getattr(self._inner, "lines", ())
        return {platform_named(line.manifest.name): line.adapter for line in lines}

    @property
    def drain_seconds(self) -> float:
        """What turns that run get to end."""
        return self._loaded.settings.gateway.drain_seconds

    async def start(self) -> bool:
        """Begin; platforms connect by themselves, and again when they are lost. Raises
        `HermesError` when there is nothing to run, or another runs."""
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
        """Turns that run get the time they have by the settings."""
        if self._inner is not None:
            self._inner.stop()
            await self.wait_for_shutdown()

    async def wait_for_shutdown(self) -> int:
        """Until a signal, `stop` or /restart; the exit code of a gateway."""
        return 0 if self._task is None else await self._task

    async def _run(self, inner: runner.GatewayRunner) -> int:
        with claimed(self._home, now=time.time(), version=__version__):
            return await inner.run()


async def start_gateway(config: GatewayConfig | None = None, replace: bool = False) -> bool:
    """Run until a signal comes. False when it is to be started again, as /restart asks. With
    `replace` the one that runs is stopped first."""
    here = GatewayRunner(config)
    if replace and (found := running(current_home().root)):
        await asyncio.to_thread(stop, found, seconds=here.drain_seconds + GRACE_SECONDS, force=True)
    await here.start()
    return await here.wait_for_shutdown() != RESTART

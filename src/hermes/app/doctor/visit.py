"""One visit at the doctor's, from beginning to end."""

from contextlib import AsyncExitStack

from hermes.app.doctor.findings import Outcome
from hermes.app.doctor.running import examine, mend
from hermes.app.doctor.scene import Scene, Screen, best_settings
from hermes.app.doctor.table import CHECKS
from hermes.app.providers import Providers
from hermes.config.home import Home
from hermes.core.ports import Clock
from hermes.providers.local import DownloadProgress


class Unseen:
    """A `Progress` for nobody: no check starts or fetches a model."""

    def say(self, text: str) -> None:
        pass

    def report(self, label: str, done: int, total: int) -> None:
        pass


async def visit(
    home: Home,
    clock: Clock,
    *,
    fix: bool = False,
    offline: bool = False,
    screen: Screen = Screen(),  # noqa: B008 - frozen
) -> list[Outcome]:
    """What every check found; with `fix`, after what can be mended safely was mended."""
    loaded = best_settings(home)
    async with AsyncExitStack() as stack:
        providers = None
        if loaded is not None:
            seen: DownloadProgress = Unseen()
            providers = await stack.enter_async_context(Providers(home, loaded, clock, seen))
        scene = Scene(home, loaded, providers, clock, screen, offline=offline)
        outcomes = await examine(scene, CHECKS)
        return await mend(scene, CHECKS, outcomes) if fix else outcomes

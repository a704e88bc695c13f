"""What jobs send while no gateway runs here: it is kept, and the next gateway sends it."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from hermes.app.app import App
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError
from hermes.core.ports import Outbox


def kept_mail(app: App) -> Outbox | None:
    """None when no platform is set up."""
    platforms = _platforms(app.loaded)
    if not platforms:
        return None
    targets = _targets(app.home, app.loaded, platforms)
    outbox: Outbox = import_module("hermes.gateway.outbox").OutboxService(
        app.store.outbox,
        targets.resolve,
        platforms,
        app.clock,
        known=targets.lines,
    )
    return outbox


def reachable(home: Home, loaded: Loaded) -> Callable[[str], Awaitable[None]]:
    """Return a `TargetCheck` that requires the platform of a target to be set up."""

    async def check(target: str) -> None:
        platforms = _platforms(loaded)
        name = target.partition(":")[0].partition("@")[0].strip().lower()
        if name in platforms:
            _targets(home, loaded, platforms).resolve(target)
            return
        from hermes.cron import check_platform  # most commands never check a target

        await check_platform(target)
        raise UsageError(
            f"{name} is not set up",
            hint=f"`hermes gateway setup {name}` does that; `local` is a file",
        )

    return check


def _platforms(loaded: Loaded) -> dict[str, Any]:
    found: dict[str, Any] = import_module("hermes.gateway.platforms.registry").configured(loaded)
    return found


def _targets(home: Home, loaded: Loaded, platforms: dict[str, Any]) -> Any:
    directory = import_module("hermes.gateway.directory").ChatDirectory(
        home.root / "channel_directory.json"
    )
    return import_module("hermes.gateway.directory").TargetResolver(
        platforms, loaded.variable, directory
    )

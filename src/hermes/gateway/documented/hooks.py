"""`gateway.hooks`."""

from typing import Any

from hermes.app.compat.runtime import shared_process, tell
from hermes.gateway import hooks


class HookRegistry(hooks.HookRegistry):
    """Empty before `discover_and_load`."""

    def discover_and_load(self) -> None:
        """Take those of the home in force; one that cannot be loaded is told and left out."""
        self.hooks = self.load(shared_process().home.hooks, tell).hooks

    async def emit(self, event_type: str, context: dict[str, Any] | None = None) -> None:
        """Tell everybody who wants to hear of it, and wait for them."""
        await self.fire(event_type, **(context or {}))
        await self.close()

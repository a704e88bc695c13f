"""Before the gateway ends: turns that run get time to end."""

import asyncio
from collections.abc import Sequence

from hermes.gateway.floor import Floor
from hermes.gateway.platforms.kit.contract import Adapter
from hermes.gateway.worker import Worker


async def drained(
    floor: Floor, adapters: Sequence[Adapter], seconds: float, hurry: asyncio.Event
) -> tuple[Worker, ...]:
    """Those of chats and those of adapters share the time, which is over when `hurry` is set. The
    result is the chats whose turns were cut."""

    async def rush() -> None:
        await hurry.wait()
        await asyncio.gather(*(each.drain(0) for each in adapters), return_exceptions=True)

    rushing = asyncio.ensure_future(rush())
    draining = asyncio.gather(*(each.drain(seconds) for each in adapters), return_exceptions=True)
    try:
        cut = await floor.drain(seconds, hurry)
        await draining
    finally:
        rushing.cancel()
    return cut

"""Offer a message until the gateway keeps it, for platforms that do not deliver twice."""

import logging
from collections.abc import Awaitable, Callable

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive

logger = logging.getLogger(__name__)


async def kept(receive: Receive, event: MessageEvent) -> bool:
    """`receive`, with a fault of the gateway told in the log and taken for "not kept"."""
    try:
        return await receive(event)
    except Exception:  # the wire must live on, whatever the gateway does
        logger.exception("a message of %s could not be taken", event.source.platform)
        return False


async def offer(
    receive: Receive,
    event: MessageEvent,
    sleep: Callable[[float], Awaitable[None]],
    *,
    first: float = 0.2,
    longest: float = 30.0,
) -> None:
    """Returns once the message is kept; until then it is offered again, less and less often. Offer
    the messages of one chat one after the other, and their order is kept."""
    pause = first
    while not await kept(receive, event):
        await sleep(pause)
        pause = min(pause * 2, longest)

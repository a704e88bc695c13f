"""Waiting for what comes first."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def arrived_or_typed(
    arrival: asyncio.Future[T], typing: Callable[[], Awaitable[str]] | None
) -> T | str:
    """What arrives, or the text that a person types before that. Nothing typed is not enough: then
    the arrival is waited for, as it is without anybody who types."""
    if typing is None:
        return await arrival
    typed = asyncio.ensure_future(typing())
    try:
        await asyncio.wait((arrival, typed), return_when=asyncio.FIRST_COMPLETED)
        if arrival.done() or not (text := typed.result().strip()):
            return await arrival
    finally:
        typed.cancel()
    return text

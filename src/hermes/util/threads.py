"""Blocking work beside the event loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a function that blocks, run in a thread of its own.

    Unlike `asyncio.to_thread`, a cancelled wait leaves the thread behind at once and nothing waits
    for it at the end of the program: a function that never returns cannot hold anybody up.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def settle(give: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            give(outcome)

    def work() -> None:
        give: Callable[[Any], None] = done.set_result
        try:
            outcome: Any = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            if isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
                # A future cannot hold the first, and the others would end the event loop.
                error = RuntimeError(f"{type(error).__name__}: {error}")
            give, outcome = done.set_exception, error
        try:
            loop.call_soon_threadsafe(settle, give, outcome)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=work, name=f"hermes-{function.__name__}", daemon=True).start()
    return await done

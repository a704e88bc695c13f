"""One turn at the terminal."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hermes.agent import Agent
from hermes.cli.render import Renderer
from hermes.core.errors import Interrupted
from hermes.core.events import TurnFinished
from hermes.core.messages import User


async def one_turn(agent: Agent, message: User | None, renderer: Renderer) -> int:
    """Run a turn and show it; the result is the exit code. Without a message it is the turn that
    was broken off."""
    exit_code = 0
    with stoppable(agent):
        async for event in agent.resume() if message is None else agent.run(message):
            renderer.show(event)
            if isinstance(event, TurnFinished):
                exit_code = event.exit_code
    return exit_code


@contextmanager
def stopped_by_ctrl_c() -> Iterator[None]:
    """Within it Ctrl-C ends what the current task does, as `Interrupted`, and not the program."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("stopped_by_ctrl_c() needs a running task")
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(task.cancel())

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not stopped:
            raise
        task.uncancel()
        raise Interrupted from None
    finally:
        loop.remove_signal_handler(signal.SIGINT)


@contextmanager
def stoppable(agent: Agent) -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM stop the turn; a second Ctrl-C ends the program."""
    loop = asyncio.get_running_loop()

    def stop(reason: str) -> None:
        if not agent.interrupt(reason):
            raise Interrupted
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop, "stopped by Ctrl-C")
    loop.add_signal_handler(signal.SIGTERM, stop, "stopped by SIGTERM")
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)

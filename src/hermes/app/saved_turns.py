"""Every finished turn as a line of a trajectory file."""

import asyncio
from pathlib import Path

from hermes.agent import Agent
from hermes.core.events import TurnFinished
from hermes.store.trajectory import save_trajectory, to_sharegpt


class SavedTurns:
    """Saves the whole conversation at the end of each turn, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, agent: Agent, end: TurnFinished) -> None:
        said = to_sharegpt(agent.history, agent.tools)
        await asyncio.to_thread(
            save_trajectory, said, agent.models.name, end.completed, folder=self._folder
        )

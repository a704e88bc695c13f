"""What a session works with: its place, the processes it left running, its lists."""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from hermes.app.workplaces import Place, make_place
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.hooks import HookName, Hooks, NoHooks
from hermes.core.marks import PROCESS_NEWS
from hermes.core.messages import Message
from hermes.core.ports import Auxiliary, Clarifier
from hermes.terminal import BackgroundProcesses, ProcessEvent
from hermes.tools import SessionServices, ToolDeps
from hermes.tools.builtin.todo import TodoList
from hermes.tools.checkpoints import CheckpointOptions, Checkpoints, TurnCheckpoints, find_workspace
from hermes.tools.editing.files import FileReads

log = logging.getLogger(__name__)


class Workbench:
    """Everything of one session that its tools share, and that is closed with it."""

    def __init__(
        self,
        loaded: Loaded,
        home: Home,
        place: Place,
        *,
        hooks: Hooks | None = None,
        clarifier: Clarifier | None = None,
        patience: float = 0.0,
        auxiliary: Auxiliary | None = None,
        history: Sequence[Message] = (),
        on_news: Callable[[str], None] = lambda _text: None,
        services: SessionServices | None = None,
    ) -> None:
        """`on_news` hears of background processes."""
        self._loaded, self._home = loaded, home
        self._hooks = hooks or NoHooks()
        self.place = place
        self.processes = BackgroundProcesses(
            self.place.workplace.shell, lambda event: on_news(process_news(event))
        )
        self.turns = TurnCheckpoints(lambda: self.checkpoints) if self.has_checkpoints else None
        todos = TodoList()
        todos.restore(history)
        self.bench = ToolDeps(
            settings=loaded.settings,
            place=self.place.workplace,
            guard=self.place.guard,
            processes=self.processes,
            reads=FileReads(),
            todos=todos,
            variables=loaded.variable,
            clarifier=clarifier,
            patience=patience,
            auxiliary=auxiliary,
            transform_output=self._transformed,
            services=services or SessionServices(),
        )

    @property
    def has_checkpoints(self) -> bool:
        """Not when the settings say so, nor when the files are on another machine."""
        return self._loaded.settings.checkpoints.enabled and self.place.here

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Those of the folder, or of the nearest above it that has any."""
        folder = self._home.root / "checkpoints"
        options = CheckpointOptions(max_snapshots=self._loaded.settings.checkpoints.max_snapshots)
        workspace = find_workspace(folder, Path(self.place.folder))
        return Checkpoints(folder, workspace, Path.home(), options)

    async def _transformed(self, output: str) -> str:
        for answer in await self._hooks.fire(HookName.TRANSFORM_TERMINAL_OUTPUT, output=output):
            if isinstance(answer, str):
                output = answer
        return output

    async def close(self) -> None:
        await self.processes.close()
        await self.place.workplace.shell.close()


def idle_bench(
    loaded: Loaded, home: Home, working_folder: Path, services: SessionServices | None = None
) -> ToolDeps:
    """For looking at tools without using them: nothing is started."""
    place = make_place(loaded, home, working_folder, log.info)
    return Workbench(loaded, home, place, services=services).bench


def process_news(event: ProcessEvent) -> str:
    """What the agent hears of a background process."""
    head = f"{PROCESS_NEWS}{event.id} ({event.command[:200]}): {event.kind}"
    code = f", exit code {event.exit_code}" if event.exit_code is not None else ""
    return f"{head}{code}]\n{event.text}".rstrip()

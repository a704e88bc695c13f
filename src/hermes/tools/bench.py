"""What the tools of one session are made over."""

from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec

from hermes.config.settings import Settings
from hermes.core.model import ToolSpec
from hermes.core.ports import Auxiliary, Clarifier
from hermes.core.tool import Tool
from hermes.security.paths import Guard
from hermes.terminal.background.processes import Processes
from hermes.terminal.base import Workplace
from hermes.terminal.output import OutputLimits
from hermes.tools.editing.reads import Reads
from hermes.tools.todo import Todos


class Bench(msgspec.Struct, frozen=True):
    settings: Settings
    place: Workplace
    guard: Guard
    processes: Processes
    reads: Reads
    todos: Todos
    variables: Callable[[str], str | None] = lambda _name: None
    """A variable of .env or of the process, by name: keys of services."""
    clarifier: Clarifier | None = None
    patience: float = 0.0
    """Seconds a question to them waits at least."""
    auxiliary: Auxiliary | None = None
    transform_output: Callable[[str], Awaitable[str]] | None = None
    """What plugins make of a command's output."""
    given: Mapping[str, Tool] = {}
    """Tools that were made for the session, by name."""
    others: tuple[ToolSpec, ...] = ()
    """The other tools of the session, for those whose schema names them."""

    @property
    def limits(self) -> OutputLimits:
        output = self.settings.tool_output
        return OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)

    def keys(self, names: Mapping[str, str]) -> Mapping[str, str]:
        """Values of the variables in `names` (name by purpose) that are set when they are asked
        for."""
        return _Keys(self.variables, names)


class _Keys(Mapping[str, str]):
    def __init__(self, variables: Callable[[str], str | None], names: Mapping[str, str]) -> None:
        self._variables, self._names = variables, names

    def __getitem__(self, purpose: str) -> str:
        value = self._variables(self._names[purpose]) if purpose in self._names else None
        if not value:
            raise KeyError(purpose)
        return value

    def __iter__(self) -> Iterator[str]:
        return (purpose for purpose, name in self._names.items() if self._variables(name))

    def __len__(self) -> int:
        return len(list(iter(self)))

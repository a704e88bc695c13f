"""Tasks: what an agent has to do in a rollout, and how the result is judged.

A task is frozen data with methods. Methods marked with `@reward` and `@metric` run after the
agent, in the same place where the agent worked.
"""

import hashlib
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError
from hermes.envs.trace import TaskError, Trace
from hermes.terminal import ExecutionEnvironment, GrepQuery

if TYPE_CHECKING:
    from typing import Concatenate

    from hermes.app import SessionTools

MAX_FILE_BYTES = 64_000_000

Method = TypeVar("Method", bound="Callable[Concatenate[Any, ...], Any]")
_MARK = "hermes_envs_score"


class Score(msgspec.Struct, frozen=True):
    """A marked method of a task."""

    kind: Literal["reward", "metric"]
    weight: float = 1.0


@overload
def reward(method: Method, /) -> Method: ...
@overload
def reward(*, weight: float = 1.0) -> Callable[[Method], Method]: ...
def reward(method: Any = None, /, *, weight: float = 1.0) -> Any:
    """Mark a method `(self, trace, ctx) -> float` as a reward. The reward of a trace is the sum of
    all rewards, each multiplied by its weight."""

    def mark(method: Any) -> Any:
        setattr(method, _MARK, Score("reward", weight))
        return method

    return mark if method is None else mark(method)


def metric(method: Method) -> Method:
    """Mark a method `(self, trace, ctx) -> float` as a metric, which is recorded but not part of
    the reward."""
    setattr(method, _MARK, Score("metric"))
    return method


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One item of work. Subclasses add rewards, metrics and, if needed, `setup`."""

    prompt: str  #: The first message of the user.
    name: str = ""  #: Stable name in its set of tasks.
    data: dict[str, Any] = {}  #: For the methods of the task; the model does not see it.
    system_prompt: str = ""  #: Added to the system prompt of the agent.
    image: str = ""  #: Container image that replaces that of the rollout's backend.
    folder: str = ""
    """Folder where the agent begins. On this machine, by default a new folder for each rollout."""
    agent_timeout: float = 0.0
    """Seconds for the agent, after which it is stopped and judged; 0 leaves it to the options."""

    @property
    def hash(self) -> str:
        """Digest of the content: it changes when the task does."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}\n".encode()
        return hashlib.sha256(kind + msgspec.json.encode(self, order="sorted")).hexdigest()

    @property
    def key(self) -> str:
        """The name, which survives changes of the content; without a name, a part of the hash."""
        return self.name or self.hash[:16]

    def container(self) -> dict[str, Any]:
        """Return fields of `terminal.docker.DockerOptions` for the container of this task. They
        replace what follows from the settings of the rollout."""
        return {}

    async def setup(self, ctx: "RolloutContext") -> None:
        """Prepare the place where the agent will work."""

    def scores(self) -> dict[str, Score]:
        """Return the rewards and metrics by the names of their methods."""
        found = ((name, getattr(type(self), name, None)) for name in dir(type(self)))
        return {name: getattr(method, _MARK) for name, method in found if hasattr(method, _MARK)}

    async def score(self, trace: Trace, ctx: "RolloutContext") -> None:
        """Run all rewards and metrics and store their values in the trace. Raises `TaskError` for
        an exception of the task's own code, and what the sandbox raises."""
        for name, score in self.scores().items():
            value = await run_task_code(name, getattr(self, name), trace, ctx)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise TaskError(f"{name} returned {value!r}, which is not a finite number")
            if score.kind == "reward":
                trace.rewards[name], trace.weights[name] = float(value), score.weight
            else:
                trace.metrics[name] = float(value)


async def run_task_code(name: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a task, which may be async. Raises `TaskError` unless the exception is one
    of Hermes, such as `BackendUnavailable`."""
    try:
        value = method(*arguments)
        return await value if inspect.isawaitable(value) else value
    except HermesError:
        raise
    except Exception as error:
        raise TaskError(f"{name}: {type(error).__name__}: {error}") from error


class RolloutContext:
    """The place where the agent of a rollout works, for the code of the task.

    File system errors are raised as `OSError`. `BackendUnavailable` means that the place itself
    cannot be used; the rollout is then repeated.
    """

    def __init__(
        self, workplace: ExecutionEnvironment, session_tools: "SessionTools | None" = None
    ) -> None:
        self._workplace = workplace
        self.session_tools = session_tools  #: The tools of the agent, where there is one.

    @property
    def backend(self) -> str:
        return self._workplace.name

    async def terminal(self, command: str, timeout: float = 180) -> dict[str, Any]:
        """Run a command and return `exit_code` and `output`."""
        result = await self._workplace.shell.run(
            command, timeout=timeout, on_output=lambda _text: None, cancel=CancelToken()
        )
        return {"exit_code": result.exit_code, "output": result.output}

    async def read_file(self, path: str) -> dict[str, Any]:
        """Return the whole text of a file as `content`."""
        return {"content": (await self._read(path)).decode("utf-8", "replace")}

    async def write_file(self, path: str, content: str | bytes) -> None:
        """Replace a file; missing folders are created."""
        data = content.encode() if isinstance(content, str) else content
        files = self._workplace.files
        await files.write(await files.locate(path), data)

    async def search(self, pattern: str, path: str = ".") -> list[tuple[str, int, str]]:
        """Return the lines that match a regular expression as path, line number and text."""
        files = self._workplace.files
        found = await files.grep(GrepQuery(pattern, await files.locate(path)), CancelToken())
        return [(hit.path, hit.line, hit.text) for hit in found.hits if hit.match]

    async def upload_file(self, source: str | Path, target: str) -> None:
        """Copy a file of this machine to where the agent works."""
        await self.write_file(target, Path(source).read_bytes())

    async def download_file(self, source: str, target: str | Path) -> None:
        """Copy a file from where the agent works to this machine."""
        Path(target).write_bytes(await self._read(source))

    async def _read(self, path: str) -> bytes:
        files = self._workplace.files
        return await files.read(await files.locate(path), most=MAX_FILE_BYTES)

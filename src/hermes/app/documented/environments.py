"""`tools.environments`: the places commands run in, for programs that want one of their own."""

from pathlib import Path
from typing import Any, ClassVar

from hermes.app.documented.process import process, tell
from hermes.app.workspace import make_place
from hermes.config.loader import load
from hermes.core.cancel import CancelToken


class Environment:
    """A shell that remembers its folder and exported variables. Commands run at once: nobody is
    asked. `settings` are those of `terminal`, such as `docker_image`; what is not said comes from
    the settings of the home."""

    backend: ClassVar[str] = ""
    """`terminal.backend`; "" takes that of the settings."""

    def __init__(self, cwd: str | Path = "", timeout: float = 60, **settings: Any) -> None:
        self.timeout = timeout
        given = {f"terminal.{name}": value for name, value in settings.items()}
        if self.backend:
            given["terminal.backend"] = self.backend
        if cwd:
            given["terminal.cwd"] = str(cwd)
        self._process = process()
        home = self._process.home
        self._shell = make_place(load(home, given), home, Path.cwd(), tell).workplace.shell
        self._process.at_end.append(self._shell.close)

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        return self._shell.cwd

    def execute(self, command: str, cwd: str = "", timeout: float | None = None) -> dict[str, Any]:
        """A dict with `output` and `returncode` (124 when the time was up). `cwd` holds for this
        command only. Raises `BackendUnavailable`."""
        cancel = CancelToken()
        work = self._shell.run(
            command,
            timeout=timeout or self.timeout,
            cwd=cwd or None,
            on_output=lambda _text: None,
            cancel=cancel,
        )
        done = self._process.run(work, lambda: cancel.cancel("stopped by Ctrl-C"))
        return {"output": done.output, "returncode": done.exit_code}

    def cleanup(self) -> None:
        """End what still runs in it."""
        self._process.run(self._shell.close())


class LocalEnvironment(Environment):
    backend = "local"


class SandboxEnvironment(Environment):
    backend = "sandbox"


class DockerEnvironment(Environment):
    backend = "docker"


class SSHEnvironment(Environment):
    backend = "ssh"


class SingularityEnvironment(Environment):
    backend = "singularity"


class ModalEnvironment(Environment):
    backend = "modal"


class DaytonaEnvironment(Environment):
    backend = "daytona"

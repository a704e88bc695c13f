"""For Harbor: its Hermes agent with the program of this checkout, in a sandbox of bubblewrap.

Harbor's own environments need `docker compose` or a cloud. The paths are those of a container:
/app, /home, /logs, /tests and /tmp are folders of `root`; everything else is this machine,
read-only. `shown` are folders of this machine that would be hidden by those.
"""

import asyncio
import shutil
from pathlib import Path

from harbor.agents.installed.hermes import Hermes
from harbor.environments.base import BaseEnvironment, ExecResult

OWN = ("app", "home", "logs", "tests", "tmp")


class HermesOfCheckout(Hermes):
    async def install(self, environment: BaseEnvironment) -> None:
        """The program is there already, at the place where the installer puts it."""
        await self.exec_as_agent(environment, 'PATH="$HOME/.local/bin:$PATH" hermes version')


class Bubblewrap(BaseEnvironment):
    def __init__(self, *args, root: str, program: str, shown: list[str], **kwargs) -> None:
        self._root, self._program, self._shown = Path(root), program, shown
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    def _validate_definition(self) -> None:
        """There is no image."""

    async def start(self, force_build: bool) -> None:
        for name in OWN:
            (self._root / name).mkdir(parents=True)
        link = self._root / "home" / ".local" / "bin" / "hermes"
        link.parent.mkdir(parents=True)
        link.write_text(self._program)
        link.chmod(0o755)

    async def stop(self, delete: bool) -> None:
        """Every command ended with its sandbox."""

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    async def upload_file(self, source_path, target_path: str) -> None:
        target = self._path(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, target)

    async def upload_dir(self, source_dir, target_dir: str) -> None:
        shutil.copytree(source_dir, self._path(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path) -> None:
        shutil.copy(self._path(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir) -> None:
        shutil.copytree(self._path(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        places = ["--dev", "/dev", "--proc", "/proc"]
        for path in sorted(Path("/").iterdir()):
            if path.is_symlink():
                places += ["--symlink", str(path.readlink()), str(path)]
            elif path.name not in (*OWN, "dev", "proc"):
                places += ["--ro-bind", str(path), str(path)]
        for name in OWN:
            places += ["--bind", str(self._root / name), f"/{name}"]
        for folder in self._shown:
            places += ["--ro-bind", folder, folder]
        variables = {"HOME": "/home", "PATH": "/usr/bin:/bin", **(self._merge_env(env) or {})}
        settings = [word for pair in variables.items() for word in ("--setenv", *pair)]
        process = await asyncio.create_subprocess_exec(
            *("bwrap", "--unshare-pid", "--die-with-parent", "--clearenv", *places, *settings),
            *("--chdir", cwd or "/app", "bash", "-c", command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(
            stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0
        )

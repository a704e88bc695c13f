"""What containers share: what of this machine they see, and where their files are kept."""

import csv
import io
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable

WORKSPACE = "/workspace"
HOME = "/root"
HERMES_HOME = f"{HOME}/.hermes"
"""Where the credential files of our home appear inside."""

ENGINE_SOCKETS = (
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
"""Who can write to one of these is root on this machine."""


class Mount(msgspec.Struct, frozen=True):
    """A file or folder of this machine that is seen inside."""

    source: str
    target: str
    read_only: bool = False

    def option(self) -> str:
        """The value of `--mount`, quoted for the comma-separated form it has."""
        fields = ["type=bind", f"source={self.source}", f"target={self.target}"]
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(fields + ["readonly"] * self.read_only)
        return line.getvalue()

    def bind(self) -> str:
        """The value of apptainer's `--bind`."""
        return f"{self.source}:{self.target}" + ":ro" * self.read_only


def parse_volume(text: str) -> Mount:
    """A volume of the settings: `host:container[:ro|rw]`."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) > 2 else "rw"
    if len(parts) != 2 or mode not in ("ro", "rw") or not parts[1].startswith("/"):
        raise _refused(text, "is not of the form host:container[:ro|rw]")
    source = Path(parts[0]).expanduser()
    if not source.is_absolute() or _mode(source) is None:
        raise _refused(text, f"names {parts[0]}, which is not an existing absolute path")
    if re.fullmatch(r"/+", parts[1]):
        raise _refused(text, "would replace the container's own root")
    return safe_mount(str(source), parts[1], read_only=mode == "ro", said=text)


def safe_mount(source: str, target: str, *, read_only: bool = False, said: str = "") -> Mount:
    """A mount that does not hand over this machine. Read-only does not tame a socket."""
    real = Path(source).resolve()
    inside = [socket for socket in ENGINE_SOCKETS if Path(socket).resolve().is_relative_to(real)]
    if real == Path("/"):
        raise _refused(said or source, "would hand the whole machine to the container")
    if inside or stat.S_ISSOCK(_mode(real) or 0):
        raise _refused(said or source, "would hand the container a socket that controls the host")
    return Mount(str(real), target, read_only)


def credential_mounts(home: Path, names: Sequence[str]) -> tuple[Mount, ...]:
    """`terminal.credential_files`, relative to our home, as read-only files inside.

    A file that is not there is left out; a name that leads out of the home is refused.
    """
    mounts = []
    for name in names:
        path = (home / name).resolve()
        if not path.is_relative_to(home.resolve()):
            raise BackendUnavailable(
                f"terminal.credential_files: {name} is outside {home}",
                hint="name files of the Hermes home only",
            )
        if path.is_file():
            inside = path.relative_to(home.resolve()).as_posix()
            mounts.append(Mount(str(path), f"{HERMES_HOME}/{inside}", read_only=True))
    return tuple(mounts)


def kept_folder(sandbox_dir: str, task: str) -> Path:
    """The folder of `terminal.sandbox_dir` that keeps the files of `task`; made when missing."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", task).lstrip(".")[:100] or "default"
    folder = Path(sandbox_dir).expanduser().absolute() / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackendUnavailable(
            f"the container's files cannot be kept in {folder}: {error.strerror}",
            hint="set terminal.sandbox_dir to a folder that can be written",
        ) from error
    return folder


def _mode(path: Path) -> int | None:
    """None when it is not there, or not for us to see."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _refused(volume: str, why: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"the volume {volume!r} {why}", hint="correct terminal.docker_volumes in config.yaml"
    )

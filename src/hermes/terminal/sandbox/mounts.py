"""What a sandbox sees of this machine, as arguments of `bwrap`."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from hermes.core.errors import BackendUnavailable

RUN = "/run"
"""Here are the sockets of the system's services; who reaches those is not in a sandbox."""
RESOLVER = "/etc/resolv.conf"


class SandboxOptions(msgspec.Struct, frozen=True):
    workspace: tuple[str, ...]
    """Folders that can be written, at the same path; commands begin in the first."""
    network: bool = False
    """`terminal.sandbox_network`: the network of this machine, with all that listens on it."""
    writable: tuple[str, ...] = ()
    """`terminal.sandbox_writable`: more that can be written."""
    readonly: tuple[str, ...] = ()
    """What stays read-only although it lies in a folder that can be written."""
    hidden: tuple[str, ...] = ()
    """Files and folders that seem empty: keys, and our own home. Only what exists is covered."""
    tmp: str = ""
    """The folder that is /tmp inside; empty is one that vanishes with the sandbox."""
    memory_mb: int = 0
    """Address space of a process; 0 is no limit."""
    processes: int = 0
    """Processes of the user; 0 is no limit."""


class _Mount(msgspec.Struct, frozen=True, order=True):
    """Of two at one place the one with the higher rank counts."""

    rank: int
    words: tuple[str, ...]

    @property
    def hides(self) -> bool:
        return self.rank in (SYSTEM, HIDDEN)


SYSTEM, OPENED, READ_ONLY, HIDDEN = range(4)


def mount_arguments(options: SandboxOptions, private: Path) -> list[str]:
    """`private` is a folder of ours for the parts that are not of this machine."""
    mounts = _mounts(options, private)
    # Our first program inside needs the Python that we run with.
    python = os.path.realpath(sys.base_prefix)
    if any(python.startswith(f"{path}/") for path, mount in mounts.items() if mount.hides):
        mounts[python] = _Mount(READ_ONLY, ("--ro-bind", python))
    arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # What lies deeper comes later, so a workspace in a hidden folder is seen.
    for path, mount in sorted(mounts.items()):
        arguments += [*mount.words, path]
    for path, mount in sorted(mounts.items()):
        if mount == _Mount(HIDDEN, ("--tmpfs",)):
            arguments += ["--remount-ro", path]
    return [*arguments, *_resolver()]


def _mounts(options: SandboxOptions, private: Path) -> dict[str, _Mount]:
    empty, tmp, other = private / "empty", Path(options.tmp or private / "tmp"), private / "var-tmp"
    empty.touch(0o444)
    for folder in (tmp, other):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = _existing((*options.workspace, *options.writable))
    if "/" in opened:
        raise BackendUnavailable(
            "the working folder is /, so the sandbox would protect nothing",
            hint="work in a folder of your own, or set terminal.backend to local",
        )
    chosen = [
        ("/tmp", _Mount(SYSTEM, ("--bind", str(tmp)))),
        ("/var/tmp", _Mount(SYSTEM, ("--bind", str(other)))),
        (RUN, _Mount(SYSTEM, ("--tmpfs",))),
        *((path, _Mount(OPENED, ("--bind", path))) for path in opened),
        *((path, _Mount(READ_ONLY, ("--ro-bind", path))) for path in _existing(options.readonly)),
    ]
    for path in (*_existing(options.hidden), *sockets()):
        cover = ("--tmpfs",) if Path(path).is_dir() else ("--ro-bind", str(empty))
        chosen.append((path, _Mount(HIDDEN, cover)))
    mounts: dict[str, _Mount] = {}
    for path, mount in chosen:
        mounts[path] = max(mount, mounts.get(path, mount))
    return mounts


def _existing(paths: Iterable[str]) -> list[str]:
    """Real paths: a link is not covered but the place it leads to."""
    return [os.path.realpath(path) for path in paths if path and Path(path).exists()]


def sockets() -> Iterator[str]:
    """Sockets of other programs outside of /run and /tmp: read-only does not tame them."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = line.split(maxsplit=7)[7:]
        if path and path[0].startswith("/") and not path[0].startswith(("/run/", "/tmp/")):
            real = os.path.realpath(path[0])
            if not real.startswith(("/run/", "/tmp/")) and Path(real).is_socket():
                yield real


def _resolver() -> list[str]:
    """Where the resolver's settings are a link into /run, they are brought back."""
    real = os.path.realpath(RESOLVER)
    return ["--ro-bind", real, real] if real.startswith(f"{RUN}/") and Path(real).exists() else []

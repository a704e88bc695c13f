"""A real Docker engine and a real podman for tests, each in a temporary folder.

    from tests.integration.terminal.docker_engine import docker_engine

    engine = docker_engine()          # skips the test where it cannot run
    engine.call("ps", "-aq")

An engine is started by the first test of a process that asks for it and stopped when the process
ends. The image is made of this machine's own Debian packages, once, and kept in the folder
`HERMES_TEST_CACHE`. There is no network in the containers, and no registry is asked.
"""

import atexit
import os
import platform
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from hermes.util.files import file_lock
from tests.cases import cases

CASES = cases(__file__)

CACHE = Path(os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests")
"""Read at import, as the environment below: tests run with a home of their own."""
ENVIRONMENT = dict(os.environ)
IMAGE = "tiny:1"
SOURCES = ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list")
SECONDS_TO_START = 30
SECONDS_TO_BUILD = 600

# Without a bridge no address is given out, and nothing is changed in the machine's firewall.
NO_NETWORK = (
    *("--bridge=none", "--iptables=false", "--ip6tables=false"),
    *("--ip-forward=false", "--ip-masq=false"),
)


class Engine:
    """A client program and the environment in which it finds its engine."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        self.program = program
        self.environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}

    def call(self, *arguments: str, timeout: float = 60) -> str:
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{self.program} {arguments}: {done.stderr}")
        return done.stdout.strip()

    def answers(self) -> bool:
        try:
            self.call("info")
        except RuntimeError:
            return False
        return True


@cache
def docker_engine() -> Engine:
    _need("dockerd", "docker", "mmdebstrap")
    folder = Path(tempfile.mkdtemp(prefix="hermes-docker-"))
    socket = f"unix://{folder}/docker.sock"
    where = ("--data-root", folder / "data", "--exec-root", folder / "exec", "-p", folder / "pid")
    with (folder / "log").open("ab") as log:
        daemon = subprocess.Popen(
            ["dockerd", *where, "-H", socket, *NO_NETWORK],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={"PATH": ENVIRONMENT["PATH"], "HOME": str(folder)},
        )
    atexit.register(_stop, daemon, folder)
    engine = Engine("docker", {"DOCKER_HOST": socket, "DOCKER_CONFIG": str(folder / "config")})
    deadline = time.monotonic() + SECONDS_TO_START
    while not engine.answers():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError((folder / "log").read_text()[-4000:])
        time.sleep(0.1)
    engine.call("import", str(root_files()), IMAGE)
    return engine


@cache
def podman_engine() -> Engine:
    _need("podman", "runc", "mmdebstrap")
    folder = Path(tempfile.mkdtemp(prefix="hermes-podman-"))
    atexit.register(_remove, folder)
    (folder / "containers.conf").write_text(CASES["podman_config"].format(folder=folder))
    (folder / "storage.conf").write_text(CASES["podman_storage"].format(folder=folder))
    engine = Engine(
        "podman",
        {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "HOME": str(folder),
        },
    )
    engine.call("import", str(root_files()), IMAGE)
    return engine


def root_files() -> Path:
    """The files of a small Debian with Python, as a tar archive."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    archive = CACHE / f"container-{release}-{platform.machine()}-2.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with file_lock(archive.with_suffix(".lock"), SECONDS_TO_BUILD):
        if archive.exists():
            return archive
        new = archive.with_suffix(".new.tar")
        here = [Path("/etc/apt", name) for name in SOURCES]
        sources = [str(path) for path in here if path.exists() and path.stat().st_size]
        built = subprocess.run(
            [
                *("mmdebstrap", "--variant=essential", "--include=python3,bash"),
                *(release, str(new), *sources),
            ],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_BUILD,
        )
        if built.returncode:
            raise RuntimeError(f"mmdebstrap: {built.stderr[-4000:]}")
        new.rename(archive)
    return archive


def _need(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root")


def _stop(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    daemon.terminate()
    daemon.wait(SECONDS_TO_START)
    _remove(folder)


def _remove(folder: Path) -> None:
    """The engines leave a mount of their storage behind."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    for mount in sorted((line.split()[1] for line in mounts), reverse=True):
        if Path(mount).is_relative_to(folder):
            subprocess.run(["umount", mount], check=False)
    shutil.rmtree(folder)

"""A real sshd on loopback, with keys of its own, for each test worker."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from hermes.terminal.ssh import SshHost, SshOptions
from tests.integration.terminal.parts import program


class Sshd(NamedTuple):
    """The server and what a client needs to log in as the user of the tests."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    def options(self, **changes: Any) -> SshOptions:
        given = {
            "host": "127.0.0.1",
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "port": self.port,
            "key": str(self.folder / "user"),
            "options": (f"UserKnownHostsFile={self.folder}/known_hosts",),
        }
        return SshOptions(**{**given, **changes})

    def sessions(self) -> list[psutil.Process]:
        """Its processes for connections that are open now."""
        return psutil.Process(self.process.pid).children(recursive=False)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def sshd(tmp_path_factory):
    server = program("sshd")
    program("ssh")
    folder = tmp_path_factory.mktemp("sshd")
    folder.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run(
            [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
            check=True,
        )
    shutil.copy(folder / "user.pub", folder / "authorized_keys")
    port = free_port()
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": folder / "pid",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    kind, key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [server, "-D", "-f", folder / "config", "-E", folder / "log"], start_new_session=True
    )
    try:
        while not _listens(port):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.02)
        yield Sshd(process, folder, port)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
async def ssh(sshd):
    host = SshHost(sshd.options(), dict(os.environ))
    yield host
    await host.close()

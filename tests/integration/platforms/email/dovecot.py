"""A real IMAP server on loopback, in a temporary folder."""

import contextlib
import getpass
import os
import shutil
import signal
import smtplib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

PASSWORD = "correct-horse-battery"

CONFIG = Template(Path(__file__).with_name("dovecot.conf").read_text())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Dovecot:
    def __init__(self, folder: Path, imap: int, imaps: int, lmtp: int) -> None:
        self.folder, self.imap, self.imaps, self.lmtp = folder, imap, imaps, lmtp
        self._numbers = 0

    @property
    def certificate(self) -> Path:
        return self.folder / "cert.pem"

    def account(self) -> str:
        """Return a new, empty mailbox."""
        self._numbers += 1
        address = f"hermes{self._numbers}@example.org"
        self.set_password(address, PASSWORD)
        return address

    def set_password(self, address: str, password: str) -> None:
        file = self.folder / "users" / address
        file.write_text(f"{address}:{password}\n")
        file.chmod(0o644)

    def deliver(self, address: str, mail: bytes, sender: str = "someone@example.org") -> None:
        with smtplib.LMTP("127.0.0.1", self.lmtp, local_hostname="localhost") as lmtp:
            lmtp.sendmail(sender, [address], mail)


@contextlib.contextmanager
def running_dovecot() -> Iterator[Dovecot]:
    binary = shutil.which("dovecot", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if binary is None:
        pytest.skip("needs dovecot")
    folder = Path(tempfile.mkdtemp(prefix="dovecot-"))
    folder.chmod(0o755)
    me, root = getpass.getuser(), os.geteuid() == 0
    ports = {name: free_port() for name in ("imap", "imaps", "lmtp")}
    people = {
        "internal": "dovecot" if root else me,
        "login": "dovenull" if root else me,
        "group": "dovecot" if root else me,
        "mail": "nobody" if root else me,
        "mail_group": "nogroup" if root else me,
    }
    for name in ("users", "mail", "run"):
        (folder / name).mkdir()
    if root:
        shutil.chown(folder / "mail", "nobody", "nogroup")
    _certificate(folder)
    config = folder / "dovecot.conf"
    config.write_text(CONFIG.substitute(folder=folder, **people, **ports))
    process = subprocess.Popen(
        [binary, "-F", "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(ports["imap"], process, folder)
        _wait_for(ports["lmtp"], process, folder)
        yield Dovecot(folder, **ports)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=100)
        shutil.rmtree(folder, ignore_errors=True)


def _certificate(folder: Path) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    (folder / "key.pem").chmod(0o600)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    for _ in range(500):
        assert process.poll() is None, (folder / "log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError((folder / "log").read_text())

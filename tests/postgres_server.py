"""A real PostgreSQL server for tests: loopback and a socket, in a temporary folder.

    from tests.postgres_server import shared_server

    def test_something():
        with shared_server().database() as url:
            ...

It is started by the first test of a process that asks for it and stopped when the process ends.
PostgreSQL does not run as root, so root starts it as another user.
"""

import atexit
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest

USER = "owner"
PASSWORD_USER = "guarded"
"""A user that is let in with a password only; make it with `CREATE ROLE`."""

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_ACCESS = f"""
host all {PASSWORD_USER} 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""
_SECONDS_TO_START = 60


class PostgresServer:
    """One cluster. `settings` are those of postgresql.conf."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.programs = programs() or Path()
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-pg-"))
        self.port = free_port()
        self._settings = settings
        self._numbers = itertools.count()
        self._process: subprocess.Popen[Any] | None = None
        if user := _other_user():
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._initialise()

    def start(self) -> None:
        options = {"port": self.port, "listen_addresses": "127.0.0.1", **self._settings}
        arguments = [f"-c{name}={value}" for name, value in options.items()]
        program, data, folder = (str(each) for each in (self.programs, self.data, self.folder))
        command = [f"{program}/postgres", "-D", data, "-k", folder, *arguments]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **_as_other_user()
            )
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends every session, SIGQUIT pulls the plug."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_SECONDS_TO_START)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(
        self, database: str, *, user: str = USER, password: str = "", port: int = 0, **query: str
    ) -> str:
        who = f"{user}:{quote(password, safe='')}" if password else user
        asked = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"postgresql://{who}@127.0.0.1:{port or self.port}/{database}{asked}"

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection in autocommit mode, to look and to interfere."""
        return psycopg.connect(self.url(database), autocommit=True)

    @contextmanager
    def database(self, options: str = "ENCODING 'UTF8'") -> Iterator[str]:
        """The URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        with self.admin() as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}".encode())
        try:
            yield self.url(name)
        finally:
            if self._process is not None:
                with self.admin() as admin:
                    admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        subprocess.run(
            [
                *(self.programs / "initdb", "-D", self.data, "-U", USER, "-A", "trust"),
                *("--no-sync", "--encoding=UTF8", "--locale=C"),
            ],
            check=True,
            capture_output=True,
            **_as_other_user(),
        )
        (self.data / "pg_hba.conf").write_text(_ACCESS)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                self.admin().close()
                return
            except psycopg.OperationalError:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from None
            time.sleep(0.05)


@cache
def shared_server() -> PostgresServer:
    """The fast server of this process; skips the test where PostgreSQL is not installed."""
    return new_server(**FAST)


def new_server(**settings: str) -> PostgresServer:
    """A server of one's own, started; it is removed when the process ends."""
    if programs() is None:
        pytest.skip("needs postgresql")
    server = PostgresServer(settings)
    atexit.register(server.remove)
    server.start()
    return server


@cache
def programs() -> Path | None:
    """The folder of the server's programs. Debian keeps it out of PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max(
        (path.parent for path in folders), default=None, key=lambda bin_: int(bin_.parent.name)
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _other_user() -> pwd.struct_passwd | None:
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as_other_user() -> dict[str, Any]:
    user = _other_user()
    common: dict[str, Any] = {"cwd": "/", "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"}}
    if user is None:
        return common
    return {**common, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

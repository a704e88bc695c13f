"""Runs on the machine of the shell: starts the script, forwards its requests and stops it.

It exchanges JSON objects, one per line, over standard input and output. Its own lines begin with a
mark, because other programs may print there too. When its input ends, the agent is gone: the script
is killed and its files are deleted.
"""

# pathlib costs milliseconds at each start.
# ruff: noqa: PTH102, PTH109, PTH118, PTH120, PTH123

from __future__ import annotations

import itertools
import json
import os
import queue
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any

SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
"""Variables with one of these in their names are withheld from the script."""
HEAD_SHARE = 0.4
CHUNK = 65_536
LAST_OUTPUT = 1.0
"""Seconds to keep reading when the script has ended but another program holds its output."""


def main(setup: dict[str, Any], environment: dict[str, str]) -> None:
    ScriptRunner(setup, environment).run()


class ScriptRunner:
    """Runs one script; `environment` is that of this machine."""

    def __init__(self, setup: dict[str, Any], environment: dict[str, str]) -> None:
        self.setup, self.inherited = setup, environment
        self.mark = setup["mark"].encode()
        self.folder = ""
        self.child: subprocess.Popen[bytes] | None = None
        self.sending = threading.Lock()
        self.numbers = itertools.count(1)
        self.waiting: dict[int, queue.Queue[bytes]] = {}

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: self.leave())
        self.folder = tempfile.mkdtemp(prefix="hermes-code-")  # private to this user
        try:
            self.write_files(self.listen())
            self.child = child = self.start()
        except OSError as error:
            self.send(type="failed", reason=str(error))
            self.leave()
            return
        self.send(type="started", folder=self.folder)
        in_background(self.attend, child)
        for line in sys.stdin.buffer:
            self.receive(json.loads(line))
        self.leave()

    # The script

    def write_files(self, address: dict[str, Any]) -> None:
        temporary = os.path.dirname(self.folder)
        settings = {
            "roots": [*self.setup["roots"], temporary],
            "protected": self.setup["protected"],
            "runs_later": self.setup["runs_later"],
            "places": self.setup["places"],
            "port": address["port"],
        }
        files = {
            **self.setup["files"],
            "address.json": json.dumps(address),
            "settings.json": json.dumps(settings),
        }
        for name, text in files.items():
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)

    def start(self) -> subprocess.Popen[bytes]:
        strict = self.setup["strict"]
        work = os.path.join(self.folder, "work") if strict else os.getcwd()
        if strict:
            os.mkdir(work)
        return subprocess.Popen(
            [
                sys.executable,
                *(["-I", "-X", "utf8"] if strict else []),
                *("-u", os.path.join(self.folder, "boot.py")),
            ],
            cwd=work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self.inherited.items()
            if name in self.setup["passthrough"] or not any(mark in name.upper() for mark in SECRET)
        }
        paths = [self.folder, *filter(None, [kept.get("PYTHONPATH")])]
        python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
        return {**kept, **python, "PYTHONPATH": os.pathsep.join(paths)}

    def attend(self, child: subprocess.Popen[bytes]) -> None:
        """Read output until the script has ended, then kill what it left running and report."""
        limits = self.setup["limits"]
        outputs = {name: Output(self, name, limits[name]) for name in ("stdout", "stderr")}
        readers = [
            in_background(outputs["stdout"].read, child.stdout),
            in_background(outputs["stderr"].read, child.stderr),
        ]
        code = child.wait()
        self.kill(signal.SIGKILL)
        for reader in readers:
            reader.join(LAST_OUTPUT)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.send(type="ended", code=code, **{n: o.text() for n, o in outputs.items()})
        os._exit(0)

    def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after `grace` seconds."""
        self.kill(signal.SIGTERM)
        if self.child is not None:
            try:
                self.child.wait(grace)
            except subprocess.TimeoutExpired:
                self.kill(signal.SIGKILL)

    def kill(self, number: int) -> None:
        if self.child is not None:
            try:
                os.killpg(self.child.pid, number)
            except (ProcessLookupError, PermissionError):  # macOS reports the latter for zombies
                return

    def leave(self) -> None:
        self.kill(signal.SIGKILL)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)

    # Messages

    def send(self, **message: Any) -> None:
        try:
            with self.sending:
                sys.stdout.buffer.write(self.mark + json.dumps(message).encode() + b"\n")
                sys.stdout.buffer.flush()
        except OSError:  # the agent no longer reads
            self.leave()

    def receive(self, message: dict[str, Any]) -> None:
        if message["type"] == "reply":
            waiting = self.waiting.pop(message["id"], None)
            if waiting is not None:
                waiting.put(json.dumps(message["reply"]).encode() + b"\n")
        elif message["type"] == "stop":
            in_background(self.stop, message["grace"])

    def listen(self) -> dict[str, Any]:
        """Listen for the script and return the address. A socket in the private folder is preferred
        to a port, which other users can reach."""
        token = secrets.token_hex(16)
        path = os.path.join(self.folder, "socket")
        port = 0
        try:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
        except (AttributeError, OSError):  # not supported, or the path is too long
            listener = socket.socket(socket.AF_INET)
            listener.bind(("127.0.0.1", 0))
            path, port = "", listener.getsockname()[1]
        listener.listen(64)
        in_background(self.accept, listener, token.encode() + b"\n")
        return {"path": path, "port": port, "token": token}

    def accept(self, listener: socket.socket, token: bytes) -> None:
        while True:
            connection, _ = listener.accept()
            in_background(self.serve, connection, token)

    def serve(self, connection: socket.socket, token: bytes) -> None:
        """Forward the requests of one thread of the script, one after the other."""
        with connection, connection.makefile("rwb") as stream:
            if not secrets.compare_digest(stream.readline(len(token)), token):
                return
            for line in stream:
                number = next(self.numbers)
                answer: queue.Queue[bytes] = queue.Queue()
                self.waiting[number] = answer
                self.send(type="request", id=number, request=json.loads(line))
                stream.write(answer.get())
                stream.flush()


class Output:
    """Keeps the beginning and the end of the output; the beginning is shown as it arrives."""

    def __init__(self, runner: ScriptRunner, name: str, limit: int) -> None:
        self.runner, self.name = runner, name
        self.head_room = int(limit * HEAD_SHARE)
        self.tail_room = limit - self.head_room
        self.to_show = limit
        self.head, self.tail = bytearray(), bytearray()
        self.dropped = 0
        self.adding = threading.Lock()

    def read(self, pipe: IO[bytes]) -> None:
        while True:
            data = os.read(pipe.fileno(), CHUNK)
            if not data:
                return
            self.add(data)
            if self.to_show > 0:
                text = data[: self.to_show].decode("utf-8", "replace")
                self.to_show -= len(data)
                self.runner.send(type="output", text=text)

    def add(self, data: bytes) -> None:
        with self.adding:
            room = self.head_room - len(self.head)
            self.head += data[:room]
            self.tail += data[room:] if room > 0 else data
            excess = len(self.tail) - self.tail_room
            if excess > 0:
                del self.tail[:excess]
                self.dropped += excess

    def text(self) -> str:
        with self.adding:
            if not self.dropped:
                return (self.head + self.tail).decode("utf-8", "replace")
            head = self.head.decode("utf-8", "ignore")
            tail = self.tail.decode("utf-8", "ignore")
            return f"{head}\n[… {self.dropped} bytes left out …]\n{tail}"


def in_background(work: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread

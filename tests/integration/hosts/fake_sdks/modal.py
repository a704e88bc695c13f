"""A fake of the Modal SDK, with the part of its surface that is used (checked with 1.6).

Sandboxes are numbers, programs run on this machine. `STATE` holds what was asked; a method with
`.aio` is called by it, as the real one must be inside an event loop.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import types
from collections.abc import AsyncIterator, Callable
from typing import Any


class Error(Exception):
    pass


AuthError = type("AuthError", (Error,), {})
NotFoundError = type("NotFoundError", (Error,), {})
ConflictError = type("ConflictError", (Error,), {})
exception = types.SimpleNamespace(Error=Error, AuthError=AuthError, NotFoundError=NotFoundError)


class State:
    def __init__(self) -> None:
        self.sandboxes: list[Sandbox] = []
        self.images = {"im-1"}
        self.clients: list[tuple[str, str]] = []
        self.refuse: Exception | None = None


STATE = State()


class Both:
    """A function with an `.aio` variant; only the variant is used here."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        function = self._function.__get__(owner if instance is None else instance)
        return types.SimpleNamespace(aio=function)


class Client:
    @Both
    async def from_credentials(self, token_id: str, token_secret: str) -> "Client":
        STATE.clients.append((token_id, token_secret))
        return Client()


class App:
    app_id = "ap-1"

    @Both
    async def lookup(self, name, *, client=None, create_if_missing=False) -> "App":
        if STATE.refuse:
            raise STATE.refuse
        assert (name, create_if_missing) == ("hermes", True)
        return App()


class Image:
    def __init__(self, object_id: str = "", tag: str = "") -> None:
        self.object_id, self.tag = object_id, tag

    @staticmethod
    def from_registry(tag: str) -> "Image":
        return Image(tag=tag)

    @staticmethod
    def from_id(image_id: str, client: Client | None = None) -> "Image":
        assert client is None or isinstance(client, Client)
        return Image(image_id)


class Secret:
    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    @staticmethod
    def from_dict(env_dict: dict[str, str]) -> "Secret":
        return Secret(env_dict)


class Sandbox:
    def __init__(self, args: tuple[str, ...], options: dict[str, Any]) -> None:
        self.args, self.options = args, options
        self.tags: dict[str, str] = {}
        self.over = False
        self.processes: list[Any] = []
        self.calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    @Both
    async def create(self, *args: str, **options: Any) -> "Sandbox":
        known = {"app", "image", "secrets", "cpu", "memory", "timeout", "idle_timeout", "client"}
        assert set(options) <= known, options
        if options["image"].object_id and options["image"].object_id not in STATE.images:
            raise NotFoundError(options["image"].object_id)
        STATE.sandboxes.append(Sandbox(args, options))
        return STATE.sandboxes[-1]

    @Both
    async def list(self, *, app_id: str, client: Client | None = None) -> AsyncIterator["Sandbox"]:
        assert app_id == App.app_id
        for sandbox in STATE.sandboxes:
            if not sandbox.over:
                yield sandbox

    @Both
    async def set_tags(self, tags: dict[str, str]) -> None:
        self.tags = tags

    @Both
    async def get_tags(self) -> dict[str, str]:
        return self.tags

    @Both
    async def poll(self) -> int | None:
        return 137 if self.over else None

    @Both
    async def terminate(self) -> None:
        self.over = True
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
            for pipe in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    @Both
    async def snapshot_filesystem(self) -> Image:
        STATE.images.add("im-2")
        return Image("im-2")

    @Both
    async def exec(self, *args: str, text: bool, pty: bool) -> "ContainerProcess":
        assert not text, "bytes must arrive as they are"
        if self.over:
            raise ConflictError("sandbox has finished")
        self.calls.append((args, {"pty": pty}))
        if args[-1] == "refused":
            raise Error("no such program")
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = await asyncio.to_thread(
            subprocess.Popen, args, bufsize=0, start_new_session=True, **pipes
        )
        self.processes.append(process)
        return ContainerProcess(process)


class ContainerProcess:
    def __init__(self, process: Any) -> None:
        self._process = process
        self.stdout, self.stderr = _pieces(process.stdout), _pieces(process.stderr)
        self.stdin = StreamWriter(process)

    @Both
    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)


async def _pieces(pipe: Any) -> AsyncIterator[bytes]:
    while data := await asyncio.to_thread(os.read, pipe.fileno(), 65_536):
        yield data


class StreamWriter:
    def __init__(self, process: Any) -> None:
        self._process = process
        self._buffer, self._closed = bytearray(), False

    def write(self, data: bytes) -> None:
        if self._closed:
            raise ValueError("Stdin is closed. Cannot write to it.")
        if len(self._buffer) + len(data) > 2 * 1024 * 1024:
            raise BufferError("Buffer size exceed limit. Call drain to flush the buffer.")
        self._buffer += data

    def write_eof(self) -> None:
        self._closed = True

    @Both
    async def drain(self) -> None:
        data = memoryview(bytes(self._buffer))
        self._buffer.clear()
        while data:
            data = data[await asyncio.to_thread(self._process.stdin.write, data) :]
        if self._closed:
            self._process.stdin.close()

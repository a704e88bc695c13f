"""The Modal backend: commands run in a Modal sandbox.

Modal ends a sandbox after `lifetime` idle seconds. The next start ends sandboxes whose owner
process was killed. With `persistent`, a snapshot of the files is taken at the end, and the next
sandbox of the same task starts from it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.base import Notify, Running, log_notice
from hermes.terminal.remote import (
    ABANDONED,
    LEAD_GROUP,
    RemoteProcess,
    is_owner_gone,
    owner_mark,
    persistent_folder,
)
from hermes.util.extras import install_hint

MAX_LIFETIME = 86_400
"""The longest lifetime in seconds that Modal allows."""
INPUT_CHUNK = 1_048_576
"""Bytes of input per request; Modal's buffer holds 2 MiB."""
OUTPUT_GRACE = 1.0
"""Seconds to wait for remaining output after a program has ended."""
OWNER_TAG = "hermes-owner"
TASK_TAG = "hermes-task"

log = logging.getLogger(__name__)


class ModalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Each field names the setting it comes from."""

    image: str
    """`terminal.modal_image`."""
    task: str = "default"
    """Name of the task that owns the files."""
    forward_env: dict[str, str] = {}
    """Variables passed to commands, with their values."""
    cpu: float = 1
    """`terminal.container_cpu`."""
    memory: int = 5120
    """`terminal.container_memory` in MB."""
    persistent: bool = True
    """`terminal.container_persistent`."""
    sandbox_dir: str = ""
    """`terminal.sandbox_dir`: stores the id of the last snapshot; never empty if `persistent`."""
    lifetime: int = 300
    """`terminal.lifetime_seconds`: idle seconds after which Modal ends the sandbox."""
    token_id: str = ""
    """MODAL_TOKEN_ID; empty: the SDK reads its own configuration file."""
    token_secret: str = ""
    """MODAL_TOKEN_SECRET."""
    app: str = "hermes"
    """The Modal app that the sandboxes belong to."""


class ModalHost:
    name = "modal"

    def __init__(self, options: ModalOptions, notify: Notify = log_notice) -> None:
        self._options, self._notify = options, notify
        self._lock = asyncio.Lock()
        self._modal: Any = None
        self._client: Any = None
        self._sandbox: Any = None

    async def open(self) -> None:
        async with self._lock:
            if self._sandbox is None:
                await self._connect()

    async def start(
        self,
        argv: Sequence[str],
        *,
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None] | None = None,
        pty: bool = False,
    ) -> Running:
        await self.open()
        failure = self._modal.exception.Error
        program = argv if pty else ("sh", "-c", LEAD_GROUP, "hermes", *argv)
        try:
            process = await self._sandbox.exec.aio(*program, text=False, pty=pty)
        except failure as error:
            await self._recreate(error)
            try:
                process = await self._sandbox.exec.aio(*program, text=False, pty=pty)
            except failure as again:
                raise ToolError(f"Modal could not start the program: {again}") from again
        return _ModalProcess(process, failure, on_output, on_error or on_output)

    async def close(self) -> None:
        async with self._lock:
            sandbox, self._sandbox = self._sandbox, None
            if sandbox is None:
                return
            try:
                if self._options.persistent:
                    image = await sandbox.snapshot_filesystem.aio()
                    self._snapshot.write_text(image.object_id)
            except self._modal.exception.Error as error:
                self._notify(f"Modal could not keep the files of this session: {error}")
            finally:
                with contextlib.suppress(self._modal.exception.Error):
                    await sandbox.terminate.aio()

    async def _recreate(self, error: Exception) -> None:
        """Create a new sandbox if the old one has ended; else raise `error` as a `ToolError`."""
        async with self._lock:
            try:
                ended = await self._sandbox.poll.aio() is not None
            except self._modal.exception.NotFoundError:
                ended = True
            if not ended:
                raise ToolError(f"Modal could not start the program: {error}") from error
            self._sandbox = None
            await self._connect()
        self._notify("the Modal sandbox had ended; a new one was made")

    async def _connect(self) -> None:
        try:
            self._modal = import_module("modal")
        except ImportError as error:
            raise BackendUnavailable(
                "the package modal is not installed", hint=install_hint("modal")
            ) from error
        try:
            await self._create()
        except self._modal.exception.AuthError as error:
            raise BackendUnavailable(
                f"Modal does not let us in: {error}",
                hint="run `modal setup`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
            ) from error
        except self._modal.exception.Error as error:
            raise BackendUnavailable(
                f"Modal could not make a sandbox: {error}",
                hint="check terminal.modal_image and the network, and see status.modal.com",
            ) from error

    async def _create(self) -> None:
        modal, options = self._modal, self._options
        if options.token_id and self._client is None:
            self._client = await modal.Client.from_credentials.aio(
                options.token_id, options.token_secret
            )
        app = await modal.App.lookup.aio(options.app, client=self._client, create_if_missing=True)
        await self._reap_orphans(app)
        if kept := self._snapshot_image():
            try:
                self._sandbox = await self._create_sandbox(app, kept)
            except modal.exception.NotFoundError:
                self._notify("Modal no longer has the kept files; a fresh sandbox is made")
        if self._sandbox is None:
            image = modal.Image.from_registry(options.image)
            self._sandbox = await self._create_sandbox(app, image)
        await self._sandbox.set_tags.aio({OWNER_TAG: owner_mark(), TASK_TAG: options.task})

    async def _create_sandbox(self, app: Any, image: Any) -> Any:
        options, secret = self._options, self._modal.Secret
        return await self._modal.Sandbox.create.aio(
            *("sleep", "infinity"),
            app=app,
            image=image,
            secrets=[secret.from_dict(options.forward_env)] if options.forward_env else [],
            cpu=options.cpu or None,
            memory=options.memory or None,
            timeout=MAX_LIFETIME,
            idle_timeout=options.lifetime or None,
            client=self._client,
        )

    def _snapshot_image(self) -> Any:
        """Return the task's last snapshot, or None. Modal may have deleted it meanwhile."""
        if self._options.persistent and self._snapshot.exists():
            kept = self._snapshot.read_text().strip()
            return self._modal.Image.from_id(kept, client=self._client)
        return None

    @property
    def _snapshot(self) -> Path:
        return persistent_folder(self._options.sandbox_dir, self._options.task) / "modal-snapshot"

    async def _reap_orphans(self, app: Any) -> None:
        async for sandbox in self._modal.Sandbox.list.aio(app_id=app.app_id, client=self._client):
            tags = await sandbox.get_tags.aio()
            if is_owner_gone(tags.get(OWNER_TAG, "")):
                log.info("ending a Modal sandbox: its process is gone")
                await sandbox.terminate.aio()


class _ModalProcess(RemoteProcess):
    """A program in the sandbox. Closing its input is the only way to end it through Modal."""

    def __init__(
        self,
        process: Any,
        failure: type[Exception],
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
    ) -> None:
        super().__init__()
        self._process, self._failure = process, failure
        self.follow(self._until_end(on_output, on_error))

    async def _send(self, data: bytes) -> None:
        try:
            for begin in range(0, len(data), INPUT_CHUNK):
                self._process.stdin.write(data[begin : begin + INPUT_CHUNK])
                await self._process.stdin.drain.aio()
        except (self._failure, ValueError) as error:
            raise ToolError(f"the program takes no input: {error}") from error

    async def _send_end(self) -> None:
        with contextlib.suppress(self._failure, ValueError):  # the program has already ended
            self._process.stdin.write_eof()
            await self._process.stdin.drain.aio()

    async def _until_end(
        self, on_output: Callable[[bytes], None], on_error: Callable[[bytes], None]
    ) -> int:
        async def read(stream: Any, show: Callable[[bytes], None]) -> None:
            async for data in stream:
                show(data)

        reading = asyncio.gather(
            read(self._process.stdout, on_output), read(self._process.stderr, on_error)
        )
        try:
            code = int(await self._process.wait.aio())
            with contextlib.suppress(TimeoutError):  # another program still holds the output
                async with asyncio.timeout(OUTPUT_GRACE):
                    await reading
        except self._failure as error:  # the sandbox has ended, and the program with it
            on_error(f"\nModal: {error}\n".encode())
            return ABANDONED
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return code

"""The Modal backend: commands run in a Modal sandbox.

Modal ends a sandbox after `lifetime` idle seconds. The next start ends sandboxes whose owner
process was killed. With `persistent`, a snapshot of the files is taken at the end, and the next
sandbox of the same task starts from it.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

from hermes.core.errors import ToolError
from hermes.terminal.base import Argv, Notify, Running, Sink, log_notice
from hermes.terminal.remote import (
    ABANDONED,
    LEAD_GROUP,
    CloudHost,
    ContainerOptions,
    RemoteProcess,
    is_owner_gone,
    owner_mark,
    persistent_folder,
)

MAX_LIFETIME = 86_400  #: The longest lifetime in seconds that Modal allows.
INPUT_CHUNK = 1_048_576  #: Bytes of input per request; Modal's buffer holds 2 MiB.
OUTPUT_GRACE = 1.0  #: Seconds to wait for remaining output after a program has ended.
OWNER_TAG = "hermes-owner"
TASK_TAG = "hermes-task"

log = logging.getLogger(__name__)


class ModalOptions(ContainerOptions, frozen=True, kw_only=True):
    """`sandbox_dir` stores the id of the last snapshot."""

    lifetime: int = 300
    """`terminal.lifetime_seconds`: idle seconds after which Modal ends the sandbox."""
    token_id: str = ""  #: MODAL_TOKEN_ID; empty: the SDK reads its own configuration file.
    token_secret: str = ""  #: MODAL_TOKEN_SECRET.
    app: str = "hermes"  #: The Modal app that the sandboxes belong to.


class ModalHost(CloudHost):
    name, service = "modal", "Modal"
    auth_hint = "run `modal setup`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
    create_hint = "check terminal.modal_image and the network, and see status.modal.com"
    recreated = "a new one was made"

    def __init__(self, options: ModalOptions, notify: Notify = log_notice) -> None:
        super().__init__(notify)
        self._options = options

    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        return self._sdk.exception.Error, self._sdk.exception.AuthError

    async def _start(self, argv: Argv, on_output: Sink, on_error: Sink, *, pty: bool) -> Running:
        program = argv if pty else ("sh", "-c", LEAD_GROUP, "hermes", *argv)
        process = await self._sandbox.exec.aio(*program, text=False, pty=pty)
        return _ModalProcess(process, self._sdk.exception.Error, on_output, on_error)

    async def close(self) -> None:
        async with self._lock:
            sandbox, self._sandbox = self._sandbox, None
            if sandbox is None:
                return
            try:
                if self._options.persistent:
                    image = await sandbox.snapshot_filesystem.aio()
                    self._snapshot.write_text(image.object_id)
            except self._sdk.exception.Error as error:
                self._notify(f"Modal could not keep the files of this session: {error}")
            finally:
                with contextlib.suppress(self._sdk.exception.Error):
                    await sandbox.terminate.aio()

    async def _is_running(self) -> bool:
        try:
            return await self._sandbox.poll.aio() is None
        except self._sdk.exception.NotFoundError:
            return False

    async def _create(self) -> None:
        sdk, options = self._sdk, self._options
        if options.token_id and self._client is None:
            self._client = await sdk.Client.from_credentials.aio(
                options.token_id, options.token_secret
            )
        app = await sdk.App.lookup.aio(options.app, client=self._client, create_if_missing=True)
        async for sandbox in self._sdk.Sandbox.list.aio(app_id=app.app_id, client=self._client):
            tags = await sandbox.get_tags.aio()
            if is_owner_gone(tags.get(OWNER_TAG, "")):
                log.info("ending a Modal sandbox: its process is gone")
                await sandbox.terminate.aio()
        if kept := self._snapshot_image():
            try:
                self._sandbox = await self._create_sandbox(app, kept)
            except sdk.exception.NotFoundError:
                self._notify("Modal no longer has the kept files; a fresh sandbox is made")
        if self._sandbox is None:
            image = sdk.Image.from_registry(options.image)
            self._sandbox = await self._create_sandbox(app, image)
        await self._sandbox.set_tags.aio({OWNER_TAG: owner_mark(), TASK_TAG: options.task})

    async def _create_sandbox(self, app: Any, image: Any) -> Any:
        options, secret = self._options, self._sdk.Secret
        return await self._sdk.Sandbox.create.aio(
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
            return self._sdk.Image.from_id(kept, client=self._client)
        return None

    @property
    def _snapshot(self) -> Path:
        return persistent_folder(self._options.sandbox_dir, self._options.task) / "modal-snapshot"


class _ModalProcess(RemoteProcess):
    """A program in the sandbox. Closing its input is the only way to end it through Modal."""

    def __init__(
        self, process: Any, failure: type[Exception], on_output: Sink, on_error: Sink
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

    async def _until_end(self, on_output: Sink, on_error: Sink) -> int:
        async def read(stream: Any, show: Sink) -> None:
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

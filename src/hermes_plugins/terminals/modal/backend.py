"""The Modal backend: commands run in a Modal sandbox.

Modal ends a sandbox after `terminal.lifetime_seconds` without use. The next start ends sandboxes
whose owner process was killed. With `terminal.container_persistent`, a snapshot of the files is
taken at the end, and the next sandbox of the same task starts from it.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

from hermes.sdk import ToolError
from hermes.sdk.terminal import (
    ABANDONED,
    LEAD_GROUP,
    Argv,
    CloudHost,
    RemoteProcess,
    Running,
    Sink,
    is_owner_gone,
    owner_mark,
    persistent_folder,
)

MAX_LIFETIME = 86_400  #: The longest lifetime in seconds that Modal allows.
INPUT_CHUNK = 1_048_576  #: Bytes of input per request; Modal's buffer holds 2 MiB.
OUTPUT_GRACE = 1.0  #: Seconds to wait for remaining output after a program has ended.
APP = "hermes"  #: The Modal app that the sandboxes belong to.
OWNER_TAG = "hermes-owner"
TASK_TAG = "hermes-task"

log = logging.getLogger(__name__)


class ModalHost(CloudHost):
    name, service = "modal", "Modal"
    auth_hint = "run `modal setup`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
    create_hint = "check terminal.modal_image and the network, and see status.modal.com"
    recreated = "a new one was made"

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
                if self._settings["container_persistent"]:
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
        sdk, secret = self._sdk, self._context.secret
        if self._client is None and (token := secret("MODAL_TOKEN_ID")):
            self._client = await sdk.Client.from_credentials.aio(
                token, secret("MODAL_TOKEN_SECRET")
            )  # otherwise the SDK reads its own configuration file
        app = await sdk.App.lookup.aio(APP, client=self._client, create_if_missing=True)
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
            image = sdk.Image.from_registry(self._settings["modal_image"])
            self._sandbox = await self._create_sandbox(app, image)
        await self._sandbox.set_tags.aio({OWNER_TAG: owner_mark(), TASK_TAG: self._context.task})

    async def _create_sandbox(self, app: Any, image: Any) -> Any:
        settings, variables = self._settings, self._context.forward_env
        return await self._sdk.Sandbox.create.aio(
            *("sleep", "infinity"),
            app=app,
            image=image,
            secrets=[self._sdk.Secret.from_dict(variables)] if variables else [],
            cpu=settings["container_cpu"] or None,
            memory=settings["container_memory"] or None,
            timeout=MAX_LIFETIME,
            idle_timeout=int(settings["lifetime_seconds"]) or None,
            client=self._client,
        )

    def _snapshot_image(self) -> Any:
        """Return the task's last snapshot, or None. Modal may have deleted it meanwhile."""
        if self._settings["container_persistent"] and self._snapshot.exists():
            kept = self._snapshot.read_text().strip()
            return self._sdk.Image.from_id(kept, client=self._client)
        return None

    @property
    def _snapshot(self) -> Path:
        return persistent_folder(self._context.storage, self._context.task) / "modal-snapshot"


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

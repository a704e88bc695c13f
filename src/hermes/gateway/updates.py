"""/update: runs `hermes update` in a separate process.

After an update the gateway restarts, and the new version reports the result to the chat.
"""

import asyncio
import logging
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from hermes import __version__
from hermes.config.environment import variables
from hermes.config.home import Home
from hermes.config.installation import Checkout, Package, installation, start_command
from hermes.core.errors import HermesError, UsageError
from hermes.sdk.platforms import ChatTarget, cancel_and_wait
from hermes.util import files
from hermes.util.text import clean

log = logging.getLogger(__name__)

NOTE = "gateway_update.json"
OUTPUT = "update.out"
PAUSE = 0.2
NEWER = 10  #: Exit code of `hermes update --check` if there is a newer version.
MOST_OUTPUT = 1500

SendText = Callable[[ChatTarget, str], Awaitable[None]]


class _Note(msgspec.Struct, frozen=True):
    """Where to report the result after the restart."""

    target: ChatTarget
    before: str  #: The version before the update.
    state: Literal["running", "done"] = "running"
    output: str = ""


class UpdateRunner:
    """Runs updates for chats.

    `send` sends a message and `restart` restarts the gateway. `found` and `command` are the
    installation and its start command.
    """

    def __init__(
        self,
        home: Home,
        send: SendText,
        restart: Callable[[], None],
        *,
        found: Checkout | Package | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self._note, self._output = home.root / NOTE, home.logs / OUTPUT
        self._send, self._restart = send, restart
        self.found, self.command = found, command
        self._task: asyncio.Task[None] | None = None

    def begin(self, target: ChatTarget) -> str:
        """Start an update and return the immediate reply. Raises `UsageError` if this
        installation cannot update itself."""
        _check_updatable(self.found or installation())
        if self._task is not None and not self._task.done():
            return "An update is already running."
        self._task = asyncio.create_task(self._update(target))
        return "Checking for a newer version; the result is posted here."

    async def report(self) -> None:
        try:
            note = msgspec.json.decode(self._note.read_bytes(), type=_Note)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("the result of the last update cannot be reported: %s", error)
            return
        if note.state == "done":
            text = f"Updated from {note.before}. This is Hermes {__version__}.\n{note.output}"
        else:
            text = (
                "The gateway was stopped while an update ran. This is Hermes"
                f" {__version__}; run `/update` to try again."
            )
        try:
            await self._send(note.target, text)
        except HermesError as error:  # the gateway starts anyway
            log.warning("the result of the last update cannot be reported: %s", error)
        self._note.unlink(missing_ok=True)

    async def close(self) -> None:
        """Stop waiting. The update process continues: it changes everything or nothing."""
        await cancel_and_wait(self._task)

    async def _update(self, target: ChatTarget) -> None:
        try:
            code, output = await self._run("--check")
            if code == NEWER:
                self._write_note(_Note(target, __version__))
                code, output = await self._run()
                if code == 0:
                    self._write_note(_Note(target, __version__, "done", output))
                    self._restart()
                    return
                self._note.unlink(missing_ok=True)
            await self._send(target, output if code == 0 else f"The update failed.\n{output}")
        except (HermesError, OSError) as error:
            log.error("the update failed: %s", error)
            await self._send(target, f"The update failed: {error}")

    async def _run(self, *words: str) -> tuple[int, str]:
        """Run `hermes update`, which outlives the gateway. Returns its exit code and output."""
        process = self._start_process(*words)
        while process.poll() is None:  # noqa: ASYNC110 - asyncio would kill it with the gateway
            await asyncio.sleep(PAUSE)
        text = clean(self._output.read_text("utf-8", errors="replace")).strip()
        log.info("hermes update %s ended with %s: %s", " ".join(words), process.returncode, text)
        shown = text if len(text) <= MOST_OUTPUT else f"…{text[-MOST_OUTPUT:]}"
        return process.returncode, f"```\n{shown}\n```"

    def _start_process(self, *words: str) -> subprocess.Popen[bytes]:
        self._output.parent.mkdir(mode=0o700, exist_ok=True)
        with self._output.open("wb") as file:
            return subprocess.Popen(
                [*(self.command or start_command()), "update", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                env=variables(),
            )

    def _write_note(self, note: _Note) -> None:
        files.write_bytes(self._note, msgspec.json.encode(note), mode=0o600)


def _check_updatable(found: Checkout | Package) -> None:
    hint = "get the new version where this one came from, then /restart"
    if isinstance(found, Package):
        if found.update:
            hint = f"on that machine run: `{found.update}`, then /restart"
        text = f"{found.installer} installed Hermes here, so I cannot update myself"
        raise UsageError(text, hint=hint)
    if not found.is_repository:
        text = "this installation is not a git repository, so it cannot check for newer versions"
        raise UsageError(text, hint=hint)

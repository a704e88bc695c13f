"""The message in the user's own editor."""

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit.application import in_terminal

from hermes.config.editor import editor_command
from hermes.core.errors import HermesError, UsageError

NAME = "message.md"


async def edited(text: str) -> str:
    """What the user made of `text`. The area gives the terminal away for the time. Raises
    `HermesError`; then nothing was changed."""
    command = editor_command()
    # A folder of its own: what the editor puts beside the file goes with it.
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        file = Path(folder, NAME)
        file.touch(mode=0o600)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        async with in_terminal():
            code = await _ran([*command, str(file)])
        if code:
            raise HermesError(f"{command[0]} ended with code {code}, so the message is as it was")
        try:
            return file.read_bytes().decode("utf-8", "replace").removesuffix("\n")
        except OSError as error:
            raise HermesError(f"the message cannot be read: {error.strerror}") from error


async def _ran(command: list[str]) -> int:
    with _ctrl_c_is_not_ours():
        try:
            process = await asyncio.create_subprocess_exec(*command)
        except OSError as error:
            raise UsageError(f"cannot start {command[0]}: {error.strerror}") from error
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()


@contextlib.contextmanager
def _ctrl_c_is_not_ours() -> Iterator[None]:
    """The terminal sends it to every process in front; the editor knows what to do with it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""One run of a shell hook: what it is given, what it says, and when it is stopped."""

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.core.hooks import HookName
from hermes.plugins.events import ALLOWING, VETOES, block, verdict, words_of

MOST_OUTPUT = 1_048_576
"""Bytes of output that are read; a hook that writes more has failed."""
MOST_ERRORS = 4_096
_TOLD_APART = frozenset({"tool_name", "args", "session_id", "task_id", "parent_session_id"})
"""Arguments that have a place of their own in what a hook is given."""


class Ran(msgspec.Struct, frozen=True):
    """What a command did."""

    exit_code: int | None
    """None when it was stopped or could not be started."""
    output: str = ""
    errors: str = ""
    seconds: float = 0.0
    failure: str = ""
    """Why it did not do its work; empty when it did."""


class Where(msgspec.Struct, frozen=True):
    """Where hooks run."""

    folder: str
    environment: Mapping[str, str]
    """All that a hook gets: secrets are left out by whoever makes it."""
    lifeline: Any
    """A `terminal.here.lifeline.Lifeline`."""


def payload(name: HookName, details: Mapping[str, Any], folder: str) -> bytes:
    """The JSON on a hook's standard input."""
    session = (details.get(key) for key in ("session_id", "task_id", "parent_session_id"))
    said = {
        "hook_event_name": str(name),
        "tool_name": details.get("tool_name"),
        "tool_input": details.get("args"),
        "session_id": next((each for each in session if each), ""),
        "cwd": folder,
        "extra": {key: held for key, held in details.items() if key not in _TOLD_APART},
    }
    return msgspec.json.encode(said, enc_hook=lambda thing: f"<{type(thing).__name__}>")


def words(command: str) -> list[str]:
    """The program and its arguments, split as a shell would but without one; `~` is your home.
    Raises `ValueError`."""
    split = shlex.split(command)
    if not split:
        raise ValueError("it is empty")
    return [str(Path(word).expanduser()) if word.startswith("~/") else word for word in split]


async def run_command(command: str, data: bytes, seconds: float, where: Where) -> Ran:
    """Runs it to its end, or stops it with all it started. Never raises for what it does."""
    try:
        argv = words(command)
    except ValueError as error:
        return Ran(None, failure=f"its command cannot be understood: {error}")
    # Unix only, and needed only where there are hooks.
    spawn = import_module("hermes.terminal.local.process").spawn
    output, errors = _Bounded(MOST_OUTPUT), _Bounded(MOST_ERRORS)
    began = time.monotonic()
    try:
        process = await spawn(
            argv,
            environment=where.environment,
            cwd=where.folder,
            on_output=output.add,
            on_error=errors.add,
            lifeline=where.lifeline,
        )
    except ToolError as error:
        return Ran(None, failure=str(error))
    code, failure = None, ""
    feeding = asyncio.ensure_future(_feed(process, data))
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        failure = f"it took longer than {seconds:g} seconds"
    finally:
        feeding.cancel()
        await process.stop()
    took = time.monotonic() - began
    said, complaint = output.text(), errors.text().strip()
    if not failure and code:
        failure = complaint or f"exit code {code}"
    if not failure and output.full:
        failure = f"it wrote more than {MOST_OUTPUT} bytes"
    return Ran(code, said, complaint, took, failure)


async def _feed(process: Any, data: bytes) -> None:
    """A hook may end without reading what it is given."""
    with contextlib.suppress(ToolError, OSError):
        await process.write(data)
        await process.close_input()


def answer_of(name: HookName, output: str) -> tuple[Any, str]:
    """A hook's answer in the form of a plugin's, or None; and what could not be understood.

    Where something can be forbidden, half an answer forbids it: nobody knows what it would say.
    """
    text = output.strip()
    if not text:
        return None, ""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        problem = f"its output is no JSON ({error})"
        return (block(problem) if name in VETOES and text[0] == "{" else None), problem
    strange = [word for word in words_of(said) if word not in (*ALLOWING, "block")]
    if name in VETOES and (veto := verdict(said)) is not None:
        return veto, f"{strange[0]!r} is taken for `block`" if strange else ""
    match said:
        case {"context": str(context)}:
            return {"context": context}, ""
        case {"decision": _} | {"action": _}:
            return None, "" if verdict(said) is None else f"{name} cannot forbid anything"
        case {} if not said:
            return None, ""
        case _:
            return None, "its output is none of the documented answers"


def program_of(command: str, search_path: str) -> tuple[Path | None, str]:
    """The file a command runs, and what is wrong with it."""
    try:
        first = words(command)[0]
    except ValueError as error:
        return None, f"cannot be understood: {error}"
    folders = [Path()] if os.sep in first else [Path(p) for p in search_path.split(os.pathsep)]
    found = [folder / first for folder in folders if (folder / first).is_file()]
    if not found:
        return None, f"there is no program {first}"
    usable = next((path for path in found if os.access(path, os.X_OK)), None)
    if usable is None:
        return found[0], f"{first} is not executable (chmod +x)"
    return usable, ""


def files_of(command: str, program: Path) -> list[Path]:
    """Those that decide what a hook does: its program, and the scripts among its arguments."""
    return [program, *(path for path in map(Path, words(command)[1:]) if path.is_file())]


class _Bounded:
    """The first bytes of a stream; the rest is only noticed."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, bytearray()
        self.full = False

    def add(self, data: bytes) -> None:
        room = self._most - len(self._bytes)
        self.full = self.full or len(data) > room
        self._bytes += data[:room]

    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")

"""A script that runs before a job's prompt: a Python file in `<home>/scripts`."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hermes.core.errors import UsageError
from hermes.util.plain import plain
from hermes.util.programs import end_group, start_program
from hermes.util.text import cut_middle

MOST_CHARS = 50_000
MOST_ERRORS = 2_000
MOST_BYTES = 5_000_000
"""A script that prints more is ended."""


class ScriptResult(msgspec.Struct, frozen=True):
    output: str
    problem: str = ""
    """Why it failed; "" when it did not."""


def script_path(folder: Path, name: str) -> Path:
    """The file of a script. Raises `UsageError` for what is not in the folder, also by a link."""
    real = Path(os.path.realpath(folder / name.partition("\0")[0]))
    if "\0" in name or not real.is_relative_to(os.path.realpath(folder)):
        raise UsageError(
            f"the script {name!r} is not in {folder}", hint="scripts of jobs are kept there"
        )
    if real.suffix != ".py":
        raise UsageError(f"the script {name!r} is no Python file (.py)")
    if not real.is_file():
        raise UsageError(f"there is no script {name!r} in {folder}")
    return real


async def run_script(
    folder: Path, name: str, timeout: float, environment: Mapping[str, str], cwd: Path
) -> ScriptResult:
    """What it printed. A failure is a result, not an error: the agent is told of it."""
    try:
        path = script_path(folder, name)
        process = await start_program(
            sys.executable,
            str(path),
            cwd=cwd,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except UsageError as error:
        return ScriptResult("", str(error))
    except OSError as error:
        return ScriptResult("", f"it cannot be started: {error.strerror or error}")
    problem = ""
    out, err = bytearray(), bytearray()
    try:
        async with asyncio.timeout(timeout or None):
            await asyncio.gather(_read(process.stdout, out), _read(process.stderr, err))
            await process.wait()
    except TimeoutError:
        problem = f"it took more than {timeout:g} seconds"
    except OverflowError:
        problem = f"it printed more than {MOST_BYTES:,} bytes"
    finally:
        end_group(process)
        await process.wait()
    if not problem and process.returncode:
        problem = f"exit code {process.returncode}"
    if problem and (told := _text(err, MOST_ERRORS)):
        problem = f"{problem}\n{told}"
    return ScriptResult(_text(out, MOST_CHARS), problem)


async def _read(stream: asyncio.StreamReader | None, into: bytearray) -> None:
    while stream is not None and (more := await stream.read(65_536)):
        into += more
        if len(into) > MOST_BYTES:
            raise OverflowError


def _text(data: bytearray, limit: int) -> str:
    return cut_middle(plain(data.decode("utf-8", "replace")).strip(), limit)

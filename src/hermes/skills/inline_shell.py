"""Inline shell: !`command` in a SKILL.md is replaced with what the command prints.

It runs on this machine and without approval, and therefore only when `skills.inline_shell` is on.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

MOST_OUTPUT = 4_000
"""Characters of one snippet's output."""
MOST_SNIPPETS = 20
"""Of one text; they run one after the other."""
FLOOD = 1_000_000
"""Bytes after which a snippet is stopped: nobody will read them."""

GRACE = 1.0
"""Seconds in which a killed process is gone."""
BASH = "/bin/bash"

_SNIPPET = re.compile(r"(?<![\w!`\\])!`([^`\n]+)`")


class Shell(msgspec.Struct, frozen=True):
    folder: Path
    environment: Mapping[str, str]
    timeout: float
    """Seconds for one snippet."""


async def run_snippets(text: str, shell: Shell) -> str:
    """`text` with the output of each snippet in its place, or why there is none."""
    parts: list[str] = []
    end = 0
    for number, snippet in enumerate(_SNIPPET.finditer(text)):
        if number < MOST_SNIPPETS:
            output = await _run(snippet[1], shell)
        else:
            output = _error(f"a text may have {MOST_SNIPPETS} snippets")
        parts += [text[end : snippet.start()], output]
        end = snippet.end()
    return "".join([*parts, text[end:]])


class _Child(asyncio.SubprocessProtocol):
    """Takes in what a process prints."""

    def __init__(self) -> None:
        self.printed = {1: bytearray(), 2: bytearray()}
        self.done = asyncio.Event()
        self.exited = asyncio.Event()
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed[fd] += data
        if len(self.printed[fd]) > FLOOD:
            self.done.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        self._open.discard(fd)
        self._look()

    def process_exited(self) -> None:
        self.exited.set()
        self._look()

    def _look(self) -> None:
        if self.exited.is_set() and not self._open:
            self.done.set()


async def _run(command: str, shell: Shell) -> str:
    try:
        transport, child = await asyncio.get_running_loop().subprocess_exec(
            _Child,
            BASH if Path(BASH).exists() else "/bin/sh",
            "-c",
            command,
            cwd=shell.folder,
            env=dict(shell.environment),
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # so that all it starts can be stopped
        )
    except (OSError, ValueError) as error:
        return _error(str(error))
    try:
        async with asyncio.timeout(shell.timeout):
            await child.done.wait()
        code = transport.get_returncode()
    except TimeoutError:
        # When it has ended, only what it left in the background still holds its output.
        code = transport.get_returncode()
        if code is None:
            return _error(f"no result after {shell.timeout:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await child.exited.wait()
        transport.close()
    output, errors = (_shown(child.printed[fd]) for fd in (1, 2))
    if code:  # None for a flood, which was cut off
        return _error(": ".join(filter(None, [f"exit code {code}", errors or output])))
    return output


def _shown(data: bytearray) -> str:
    text = data.decode("utf-8", "replace").strip()
    return text if len(text) <= MOST_OUTPUT else f"{text[: MOST_OUTPUT - 1]}…"


def _error(reason: str) -> str:
    return f"[inline-shell error: {reason}]"[:MOST_OUTPUT]

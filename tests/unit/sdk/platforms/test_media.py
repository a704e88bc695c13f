"""Files of chats on this machine."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.sdk.platforms import (
    AdapterError,
    Media,
    MediaCache,
    MediaTooLarge,
    SendRefused,
    guess_mime,
    media_kind,
    open_upload,
    safe_filename,
)
from tests.cases import cases


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def test_saved_file_is_private(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path / "cache")
    kept = await cache.save(pieces(b"ab", b"cd"), Media("image", "a.png", "image/png", ref="r"), 4)
    assert Path(kept.path).read_bytes() == b"abcd"
    assert (kept.kind, kept.name, kept.size, kept.ref) == ("image", "a.png", 4, "r")
    assert stat.S_IMODE(Path(kept.path).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


async def test_one_byte_too_many_leaves_nothing(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path)
    with pytest.raises(MediaTooLarge, match="too large"):
        await cache.save(pieces(b"ab", b"cd", b"e"), Media("document", "a"), 4)
    assert list(tmp_path.iterdir()) == []


async def test_announced_size_over_the_limit_is_not_downloaded(tmp_path: Path) -> None:
    asked = False

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        asked = True
        yield b""

    with pytest.raises(MediaTooLarge):
        await MediaCache(tmp_path).save(endless(), Media("document", "a", size=5), 4)
    assert not asked


async def test_a_broken_download_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError(104, "reset")

    with pytest.raises(AdapterError, match="cannot be stored: reset"):
        await MediaCache(tmp_path).save(broken(), Media("document", "a"), 100)
    assert list(tmp_path.iterdir()) == []


async def test_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path)
    paths = {(await cache.save(b"x", Media("document", "a.txt"), 9)).path for _ in range(3)}
    assert len(paths) == 3


async def test_a_copy_of_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="not there"):
        await MediaCache(tmp_path).copy(tmp_path / "missing", Media("document", "a"), 9)


def test_old_files_are_cleaned_up(tmp_path: Path) -> None:
    for name, changed in (("old", 100.0), ("new", 300.0)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (changed, changed))
    assert MediaCache(tmp_path).clean(200.0) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert MediaCache(tmp_path / "missing").clean(200.0) == 0


NAMES = [*cases(__file__)["names"], ("x" * 300 + ".txt", "", "x" * 97 + ".txt")]


@pytest.mark.parametrize(("name", "mime", "safe"), NAMES)
def test_names_from_outside_are_made_safe(name, mime, safe) -> None:
    assert safe_filename(name, mime) == safe


@given(st.text(max_size=200))
def test_any_name_becomes_a_single_harmless_one(name) -> None:
    safe = safe_filename(name)
    assert safe
    assert Path(safe).name == safe
    assert safe not in {".", ".."}
    assert safe.isprintable()
    assert len(safe.encode()) <= 160
    assert not safe.startswith((".", " "))


def test_kinds() -> None:
    assert media_kind("image/webp") == "image"
    assert media_kind("", "a.mp3") == "audio"
    assert media_kind("application/pdf", "a.png") == "document"
    assert guess_mime("thing.unknown") == "application/octet-stream"


def test_unusable_upload_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"12345")
    assert open_upload(Media("document", path=str(file)), 5) == file
    for path, limit in ((file, 4), (tmp_path, 99), (tmp_path / "missing", 99)):
        with pytest.raises(SendRefused):
            open_upload(Media("document", path=str(path)), limit)

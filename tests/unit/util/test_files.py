"""Atomic writes and real paths."""

import os
from pathlib import Path

import pytest

from hermes.util import files
from hermes.util.files import inside, upwards


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_is_private(tmp_path):
    files.write_text(tmp_path / "new", "grüße\r\n")
    assert (tmp_path / "new").read_bytes() == "grüße\r\n".encode()
    assert mode(tmp_path / "new") == 0o600


def test_an_existing_file_keeps_its_permissions_unless_others_are_given(tmp_path):
    path = tmp_path / "old"
    path.write_text("before")
    path.chmod(0o640)
    files.write_text(path, "after")
    assert (path.read_text(), mode(path)) == ("after", 0o640)
    files.write_bytes(path, b"after", mode=0o600)
    assert mode(path) == 0o600


def test_a_link_stays_a_link_and_its_target_changes(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target"
    target.write_text("before")
    link = tmp_path / "link"
    link.symlink_to(target)
    files.write_text(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_text(folder, "text")
    with pytest.raises(FileNotFoundError):
        files.write_text(tmp_path / "missing" / "file", "text")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_text(pipe, "through")
        assert os.read(reader, 100) == b"through"
        assert pipe.is_fifo()
    finally:
        os.close(reader)


def test_the_way_up_and_something_in_a_folder() -> None:
    ways = {"/a/b": "/a/b /a /", "/": "/", "a/b": "a/b a .", "/a/": "/a /"}
    assert {folder: " ".join(upwards(folder)) for folder in ways} == ways
    paths = {"/a": "/a/x", "/a/": "/a/x", "/": "/x"}
    assert {folder: inside(folder, "x") for folder in paths} == paths

"""Which files are taken for a skill, and the hashes they are known by."""

from pathlib import Path

import pytest

from hermes.skills.hub.contents import (
    MAX_FILES,
    InvalidContent,
    check_file_name,
    check_files,
    combined_hash,
    file_hashes,
    is_hidden,
    read_folder,
    write_folder,
)

HEAD = b"---\nname: a\ndescription: b\n---\nText.\n"


@pytest.mark.parametrize("name", ["SKILL.md", "a/b/c.py", "Über uns.md", "a+b (1).txt", "a-._b"])
def test_ordinary_names_are_kept(name: str) -> None:
    assert check_file_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", "/etc/passwd", "../a", "a/../b", "a/./b", "a//b", "a/", "C:\\x", "a\\b", "a\nb", "a\0b",
        " a", "a ", "a\u202eb", "x" * 201, "/".join("abcdefghi"), "a:b", "a*", "\ud800",
    ],
)  # fmt: skip
def test_names_that_could_mean_something_else_are_not(name: str) -> None:
    with pytest.raises(InvalidContent):
        check_file_name(name)


def test_hidden_files_are_not_part_of_a_skill() -> None:
    files = {"SKILL.md": HEAD, ".git/config": b"", "a/.DS_Store": b"", "__pycache__/a.pyc": b""}
    assert set(check_files(files)) == {"SKILL.md"}
    assert not is_hidden("../a")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"readme.md": b""},
        {"SKILL.md": HEAD, "skill.MD": b""},
        {"SKILL.md": HEAD, "cafe\u0301.md": b"", "caf\u00e9.md": b""},
        {"SKILL.md": HEAD, "a": b"", "a/b": b""},
        {"SKILL.md": HEAD, "big": bytes(11 * 1024 * 1024)},
        {"SKILL.md": HEAD, **{f"{number}.md": b"" for number in range(MAX_FILES)}},
    ],
    ids=["none", "no SKILL.md", "case", "accents", "file and folder", "size", "number"],
)
def test_names_that_clash_on_some_systems_are_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidContent):
        check_files(files)


def test_the_hash_of_all_depends_on_names_and_contents_alone() -> None:
    one = combined_hash(file_hashes({"a": b"1", "b": b"2"}))
    assert one == combined_hash(file_hashes({"b": b"2", "a": b"1"}))
    assert one != combined_hash(file_hashes({"a": b"2", "b": b"1"}))
    assert one != combined_hash(file_hashes({"a": b"1", "c": b"2"}))


def test_a_folder_holds_what_was_written(tmp_path: Path) -> None:
    files = {"SKILL.md": HEAD, "scripts/run.sh": b"#!/bin/sh\n", "bin/data": b"\0\1"}
    write_folder(tmp_path / "new", files)
    assert read_folder(tmp_path / "new") == files
    assert (tmp_path / "new/scripts/run.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new/bin/data").stat().st_mode & 0o777 == 0o600


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path)
    with pytest.raises(InvalidContent, match="link"):
        read_folder(tmp_path)

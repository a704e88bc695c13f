"""An archive that anybody may have made."""

import hashlib
import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes.core.errors import UsageError
from hermes.ops import backup
from hermes.ops.backup import (
    NAME,
    ArchiveRefused,
    belongs,
    is_plain,
    is_store,
    open_archive,
    unit_of,
)

FACTS = {
    "format": 1,
    "hermes": "9.9.9",
    "created": "2026-01-01T00:00:00+00:00",
    "kind": "full",
    "profile": "default",
}


def record(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mode": 0o600}


def archive(path: Path, content: dict[str, bytes], **facts: Any) -> Path:
    described = {name: record(data) for name, data in content.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in content.items():
            zipped.writestr(name, data)
        zipped.writestr(NAME, json.dumps({**FACTS, "files": described, **facts}))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ArchiveRefused) as caught, open_archive(path) as found:
        found.check_content()
    return str(caught.value)


def test_a_good_one_says_what_it_has(tmp_path: Path) -> None:
    files = {"config.yaml": b"a: 1\n", "skills/x/SKILL.md": b"x", "profiles/work/.env": b"K=1"}
    with open_archive(archive(tmp_path / "a.zip", files)) as found:
        found.check_content()
        assert found.units == ["config.yaml", "profiles/work/.env", "skills"]
        assert found.size == 9


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "/etc/passwd", "skills/../../evil", "a\\b", "C:evil", "skills//x",
        "./config.yaml", "skills/\x1b[2J", "skills/\u202eevil",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    assert "outside the home" in refusal(archive(tmp_path / "a.zip", {name: b"x"}))


@pytest.mark.parametrize(
    "name", ["logs/agent.log", "models/x.gguf", "profiles/work", "profiles/w/logs/x", ".import/new"]
)
def test_archive_with_a_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    assert "not belong to a backup" in refusal(archive(tmp_path / "a.zip", {name: b"x"}))


def test_a_link_is_refused(tmp_path: Path) -> None:
    target = b"/etc/passwd"
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        link = zipfile.ZipInfo("config.yaml")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(link, target)
        zipped.writestr(NAME, json.dumps({**FACTS, "files": {"config.yaml": record(target)}}))
    assert "is not a regular file" in refusal(path)


def test_a_later_format_is_refused_before_anything_else_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {}, format=2, files=["another", "form"], kind="new")
    with pytest.raises(ArchiveRefused) as caught, open_archive(path):
        pass
    assert "later version (Hermes 9.9.9, format 2" in str(caught.value)
    assert "hermes update" in caught.value.hint


@pytest.mark.parametrize(
    "facts",
    [
        {"files": "no"},
        {"kind": "other"},
        {"files": {"config.yaml": {"size": -1, "sha256": "0" * 64, "mode": 0}}},
        {"files": {"config.yaml": {"size": 1, "sha256": "zz", "mode": 0}}},
        {"files": {"config.yaml": {**record(b"x"), "mode": 0o4755}}},
        {"files": {}},
        {"files": {"config.yaml": record(b"x"), "more": record(b"x")}},
        {"files": {"config.yaml": {**record(b"x"), "sha256": "0" * 64}}},
        {"files": {"config.yaml": {**record(b"x"), "size": 2}}},
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert "damaged" in refusal(archive(tmp_path / "a.zip", {"config.yaml": b"x"}, **facts))


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"config.yaml": bytes(range(256)) * 40})
    data = bytearray(path.read_bytes())
    data[80] ^= 0xFF
    path.write_bytes(data)
    assert "damaged" in refusal(path)


@pytest.mark.parametrize("length", [0, 10, 200, -30])
def test_a_part_of_one_is_refused(tmp_path: Path, length: int) -> None:
    path = archive(tmp_path / "a.zip", {"config.yaml": bytes(range(256)) * 40})
    path.write_bytes(path.read_bytes()[:length])
    assert "not a backup" in refusal(path)


def test_other_zip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("config.yaml", "a: 1")
    assert "no hermes-backup.json" in refusal(path)
    with pytest.raises(UsageError, match="there is no file"), open_archive(tmp_path / "none.zip"):
        pass


def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"skills/a": b"x", "skills/a/b": b"y"})
    assert "both a file and a folder" in refusal(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"config.yaml": b"x"})
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("config.yaml", b"x")
    assert "two files of one name" in refusal(path)


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes are only claimed here: nothing is read to find out."""
    monkeypatch.setattr(backup, "HARMLESS", 2**24)
    path = tmp_path / "a.zip"
    zeros = bytes(2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as zipped:
        files = dict.fromkeys((f"skills/{n}" for n in range(20)), record(zeros))
        for name in files:
            zipped.writestr(name, zeros)
        zipped.writestr(NAME, json.dumps({**FACTS, "files": files}))
    assert path.stat().st_size < 2**20
    assert "bytes would be extracted from" in refusal(path)


def test_entries_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """As in the archives that hold petabytes in a few kilobytes."""
    path = archive(tmp_path / "a.zip", {f"skills/{n}": bytes(range(256)) * 64 for n in range(3)})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    directory = bytearray(data[start:])
    for at in [n for n in range(len(directory)) if directory[n : n + 4] == b"PK\x01\x02"][:3]:
        directory[at + 20 : at + 24] = (len(data)).to_bytes(4, "little")
    path.write_bytes(data[:start] + directory)
    assert "bytes would be extracted from" in refusal(path)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("config.yaml", True), ("skills/a/uv.lock", True), ("profiles/work/state.db", True),
        ("state.db-wal", False), ("cache/x", False), ("skills/a/__pycache__/b.pyc", False),
        ("state.db.damaged-20260101-000000", False), ("profiles", False), ("x.sock", False),
        ("backups/sessions/state-20260101-000000.db", False), ("backups/of-mine.db", True),
    ],
)  # fmt: skip
def test_backup_includes_only_its_files(name: str, there: bool) -> None:
    assert belongs(name) is there


def test_names_are_sorted_into_units_and_stores() -> None:
    assert unit_of("profiles/work/skills/a/b") == "profiles/work/skills"
    assert unit_of("skills/a/b") == "skills"
    assert is_store("profiles/work/state.db")
    assert not is_store("plugins/x/state.db")
    assert is_plain("skills/grüße 🙂/a:b")

"""Files that name one machine or a package index are found."""

from pathlib import Path

from scripts import portable


def found(tmp_path: Path, name: str, text: str) -> list[str]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(portable.findings(tmp_path, [path]))


MACHINE = """\
see /root/.cache/x
open("/work/tree/file")
cd /home/kim/src
pip install --index-url https://mirror.example/simple x
extra-index-url = file:///opt/simple
"""


def test_text_of_one_machine_is_found_with_its_line(tmp_path: Path) -> None:
    lines = sorted(line.split(":")[1] for line in found(tmp_path, "docs/page.md", MACHINE))
    assert lines == ["1", "2", "3", "4", "5"]


def test_ordinary_text_is_fine(tmp_path: Path) -> None:
    text = "/home/alice/notes ~/work/x docs/work/x.md GET /v1/work/items /rootless"
    assert found(tmp_path, "docs/page.md", text) == []


def test_lock_files_hold_no_address_at_all(tmp_path: Path) -> None:
    lock = "a==1 \\\n    --hash=sha256:00\nb @ https://example.org/b.whl\n--find-links x\n"
    assert [line.split(": ")[1] for line in found(tmp_path, "requirements.lock", lock)] == [
        "an address in a lock file",
        "an address in a lock file",
    ]


def test_binary_files_are_left_alone(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\xff\xfe/root/x")
    assert list(portable.findings(tmp_path, [picture])) == []

"""Files beside a SKILL.md, and nothing outside its folder."""

import random
from pathlib import Path

import pytest

from hermes.skills.loader import format_listing, linked_files, read_linked
from hermes.skills.skill import Skill, SkillInvalid, SkillNotFound
from tests.unit.skills.making import put, skills_in


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    folder = put(tmp_path / "skills", "x")
    files = ("scripts/run.py", "references/a.md", "references/deep/b.md", "forms.md", ".hidden/c")
    for name in (*files, "scripts/__pycache__/run.pyc", "assets/logo.png", "other/d.txt"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    (folder / "assets/logo.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "secret.txt").write_text("secret")
    return skills_in(tmp_path / "skills").get("x")


def test_files_are_listed_by_folder(skill: Skill):
    names = linked_files(skill.folder)
    assert names == (
        "references/a.md",
        "references/deep/b.md",
        "scripts/run.py",
        "assets/logo.png",
        "forms.md",
        "other/d.txt",
    )
    assert format_listing(names) == (
        "references/: a.md, deep/b.md\nscripts/: run.py\nassets/: logo.png\nforms.md\nother/: d.txt"
    )


def test_of_very_many_files_the_first_are_listed(tmp_path: Path):
    folder = put(tmp_path, "x")
    for number in range(70):
        (folder / f"file-{number:02}.md").write_text("x")
    text = format_listing(linked_files(folder))
    assert "file-59.md" in text and "file-60.md" not in text
    assert text.endswith("\nand 10 more")


@pytest.mark.parametrize("name", ["references/a.md", "./references/a.md", "references/deep/b.md"])
def test_a_file_is_read(skill: Skill, name: str):
    assert read_linked(skill, name) == f"text of {name.removeprefix('./')}"


def test_what_is_no_text_is_described(skill: Skill):
    assert read_linked(skill, "assets/logo.png") == (
        f"[{skill.folder}/assets/logo.png holds no text: 6 B]"
    )


NOISE = bytes(byte for byte in random.Random(3).randbytes(2000) if byte)


@pytest.mark.parametrize(
    "data",
    [
        NOISE,
        NOISE[:60],
        bytes(byte & 0x7F or 1 for byte in NOISE),
        b"\x89PNG\r\n\x1a\n\x01\x02\xfe",
    ],
    ids=["noise", "short", "ASCII", "picture"],
)
def test_binary_data_without_a_nul_is_no_text_either(skill: Skill, data: bytes):
    (skill.folder / "data.bin").write_bytes(data)
    assert "data.bin holds no text" in read_linked(skill, "data.bin")


@pytest.mark.parametrize(
    "data",
    ["Grüße\r\n\tda\n".encode("cp1252"), b"\x1b[31mred\x1b[0m\fnext page", "日本".encode()],
    ids=["Windows", "colours", "Japanese"],
)
def test_odd_text_is_shown(skill: Skill, data: bytes):
    (skill.folder / "odd.txt").write_bytes(data)
    assert "holds no text" not in read_linked(skill, "odd.txt")


@pytest.mark.parametrize(
    "name",
    [
        "../../secret.txt",
        "references/../../../secret.txt",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "out.txt",
        "outside/secret.txt",
        "loop",
        "a\0b",
    ],
)
def test_no_way_leads_out_of_the_folder(skill: Skill, name: str):
    (skill.folder / "out.txt").symlink_to("../../secret.txt")
    (skill.folder / "outside").symlink_to("../..")
    (skill.folder / "loop").symlink_to("loop")
    with pytest.raises((SkillInvalid, SkillNotFound)) as raised:
        read_linked(skill, name)
    assert "secret" not in (raised.value.hint or "")
    assert not {"out.txt", "outside/secret.txt"} & set(linked_files(skill.folder))


def test_a_link_that_stays_inside_is_followed(skill: Skill):
    (skill.folder / "alias.md").symlink_to("references/a.md")
    assert read_linked(skill, "alias.md") == "text of references/a.md"


def test_a_file_that_is_not_there_names_those_that_are(skill: Skill):
    with pytest.raises(SkillNotFound, match="the skill 'x' has no file references/z") as raised:
        read_linked(skill, "references/z.md")
    assert "references/: a.md, deep/b.md" in raised.value.hint


def test_a_file_that_is_too_large_is_not_shown(skill: Skill):
    with (skill.folder / "big.txt").open("wb") as file:
        file.truncate(600_000)
    large = "too large to show: 600.0 kB, and the limit is 500.0 kB"
    with pytest.raises(SkillInvalid, match=large) as raised:
        read_linked(skill, "big.txt")
    assert "read_file" in raised.value.hint


def test_a_name_no_file_can_have_is_said(skill: Skill):
    with pytest.raises(SkillInvalid, match="cannot be read: file name too long"):
        read_linked(skill, "references/" + "x" * 5000)

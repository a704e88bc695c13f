"""The list for the prompt, kept from one process to the next."""

import json
from pathlib import Path

import pytest

from hermes.skills import prompt
from hermes.skills.index import SkillIndex
from hermes.skills.prompt import MAX_CACHED_PROMPTS, SkillsPromptCache
from hermes.skills.skill import SkillRoot, Source, VisibilityContext
from hermes.skills.usage import SkillUsage

LINUX = VisibilityContext("linux")
NOW = 1_800_000_000.0
DAY = 86_400.0


class Desk:
    """What a process has; each `open` is another."""

    def __init__(self, home: Path) -> None:
        self.home, self.made = home, 0
        (home / "cache").mkdir()
        for name in ("apple", "berry", "cherry"):
            self.write(name, f"All about the {name}")

    def write(self, name: str, description: str) -> None:
        folder = self.home / "skills" / "fruit" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nx")

    @property
    def file(self) -> Path:
        return self.home / "cache" / "listed.json"

    @property
    def usage(self) -> SkillUsage:
        return SkillUsage(self.home / "skills" / ".usage.json")

    def open(self) -> SkillsPromptCache:
        roots = [SkillRoot(self.home / "skills", Source.USER)]
        return SkillsPromptCache(
            SkillIndex(roots, self.home / "cache" / "skills.json"), self.usage, self.file
        )


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made, made_anew = Desk(tmp_path), prompt.skills_prompt

    def counted(*given: object) -> str:
        made.made += 1
        return made_anew(*given)

    monkeypatch.setattr(prompt, "skills_prompt", counted)
    return made


def test_the_next_process_has_the_list_of_the_last(desk: Desk) -> None:
    first, again = desk.open(), desk.open()
    text = first.text(LINUX, 3000, NOW)
    assert "- berry: All about the berry" in text
    assert first.text(LINUX, 3000, NOW + 60) == again.text(LINUX, 3000, NOW + 120) == text
    assert desk.made == 1


def test_whatever_makes_it_another_makes_it_anew(desk: Desk) -> None:
    desk.usage.record("berry", NOW)
    desk.open().text(LINUX, 3000, NOW)
    asked = [
        (VisibilityContext("linux", disabled=frozenset({"apple"})), 3000, NOW, ()),
        (VisibilityContext("linux", tools=frozenset({"terminal"})), 3000, NOW, ()),
        (VisibilityContext("linux", toolsets=frozenset({"terminal"})), 3000, NOW, ()),
        (VisibilityContext("macos"), 3000, NOW, ()),
        (LINUX, 400, NOW, ()),
        (LINUX, 3000, NOW + 40 * DAY, ()),
        (LINUX, 3000, NOW, ("berries.pdf",)),
    ]
    for context, budget, now, hints in asked:
        desk.open().text(context, budget, now, hints)
    assert desk.made == 1 + len(asked)
    desk.write("berry", "Another text")
    assert "Another text" in desk.open().text(LINUX, 3000, NOW)
    (desk.home / "skills" / "fruit" / "DESCRIPTION.md").write_text("Sweet ones\n")
    assert "fruit: Sweet ones" in desk.open().text(LINUX, 3000, NOW)
    desk.usage.record("apple", NOW)
    desk.open().text(LINUX, 3000, NOW)
    assert desk.made == 1 + len(asked) + 3


def test_other_code_makes_it_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.open().text(LINUX, 3000, NOW)
    monkeypatch.setattr(prompt, "CODE_TIMES", [1.0])
    desk.open().text(LINUX, 3000, NOW)
    assert desk.made == 2


def test_few_are_kept_and_the_newest_of_them(desk: Desk) -> None:
    for number in range(MAX_CACHED_PROMPTS + 3):
        desk.open().text(LINUX, 3000 + number, NOW)
    assert len(json.loads(desk.file.read_bytes())) == MAX_CACHED_PROMPTS
    desk.open().text(LINUX, 3000 + MAX_CACHED_PROMPTS + 2, NOW)
    assert desk.made == MAX_CACHED_PROMPTS + 3
    desk.open().text(LINUX, 3000, NOW)
    assert desk.made == MAX_CACHED_PROMPTS + 4


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"a": 1}', b"\xff\xfe", b'{"a": "\xff"}'])
def test_a_damaged_file_is_none(desk: Desk, data: bytes) -> None:
    text = desk.open().text(LINUX, 3000, NOW)
    desk.file.write_bytes(data)
    assert desk.open().text(LINUX, 3000, NOW) == text
    assert desk.open().text(LINUX, 3000, NOW) == text
    assert desk.made == 2


def test_without_a_place_to_keep_it_everything_works(desk: Desk) -> None:
    desk.file.mkdir()
    assert "berry" in desk.open().text(LINUX, 3000, NOW)
    assert "berry" in desk.open().text(LINUX, 3000, NOW)
    assert desk.made == 2

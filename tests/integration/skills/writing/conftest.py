"""A home with skills of the user, bundled ones and one of a plugin, and the writer over it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.skills.history import Author, SkillHistory
from hermes.skills.index import SkillIndex
from hermes.skills.skill import SkillRoot, SkillUsage, Source, skill_roots
from hermes.skills.writing.draft import DraftAction, SkillDraft, SkillLimits
from hermes.skills.writing.writer import ChangeOutcome, SkillWriter, WritingOptions

BODY = "# Steps\n\n1. Look at the {name}.\n2. Do it.\n"


def text(name: str, description: str = "", body: str = "") -> str:
    description = description or f"How the {name} is done"
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body or BODY}".replace(
        "{name}", name
    )


def no_evil(files: Mapping[str, bytes]) -> list[str]:
    return [
        f"evil ({line.decode('utf-8', 'replace')})"
        for data in files.values()
        for line in data.splitlines()
        if b"EVIL" in line
    ]


class Place:
    def __init__(self, base: Path, review: str = "auto") -> None:
        self.home, self.bundled = base / "home" / "skills", base / "bundled"
        self.plugin = base / "plugin" / "helper"
        self.notices: list[str] = []
        self.put(self.bundled, "devops/servers", text("servers"))
        self.put(self.plugin.parent, "helper", text("helper"))
        brought = [SkillRoot(self.plugin, Source.PLUGIN, "kit")]
        found = skill_roots(self.home, plugins=brought, bundled=self.bundled)
        self.skills = SkillIndex(found)
        self.history = SkillHistory(self.home, self.notices.append)
        self.usage = SkillUsage(self.home / ".usage.json")
        options = WritingOptions(review, SkillLimits(skill_chars=2000, file_bytes=500, files=4))
        self.writer = SkillWriter(
            self.home, self.skills, self.history, no_evil, options, self.usage
        )

    def put(self, root: Path, name: str, content: str) -> Path:
        file = root / name / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    async def do(self, action: str, name: str, **fields: object) -> ChangeOutcome:
        session = fields.pop("session", "s1")
        draft = SkillDraft(action=DraftAction(action), name=name, session=session, **fields)
        return await self.writer.manage(draft)

    async def create(self, name: str, **fields: object) -> ChangeOutcome:
        return await self.do("create", name, **{"content": text(name), **fields})

    def read(self, path: str) -> str:
        return (self.home / path).read_text()

    def there(self) -> list[str]:
        """All files but the state at the top."""
        names = (each.relative_to(self.home).as_posix() for each in self.home.rglob("*"))
        return sorted(name for name in names if name[0] != "." and (self.home / name).is_file())

    async def reasons(self) -> list[str]:
        return [each.reason for each in await self.history.log()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def asking(tmp_path: Path) -> Place:
    return Place(tmp_path, review="ask")


__all__ = ["Author", "Place", "text"]

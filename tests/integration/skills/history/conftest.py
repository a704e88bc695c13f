from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.skills.history import Author, SkillChange, SkillCommit, SkillHistory


class Skills:
    """A folder of skills and its history."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notices = folder, list[str]()
        self.history = SkillHistory(folder, self.notices.append)

    def put(self, path: str, content: str | bytes) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def there(self) -> dict[str, bytes]:
        """All files but the state at the top."""
        files = (each for each in self.folder.rglob("*") if each.is_file())
        names = {each: each.relative_to(self.folder).as_posix() for each in files}
        return {name: each.read_bytes() for each, name in names.items() if name[0] != "."}

    async def change(
        self, path: str, content: str | bytes, reason: str = "because", **fields: str
    ) -> SkillCommit:
        """The agent writes one file of the skill that the path begins with."""
        skill = path.split("/", 1)[0]
        change = SkillChange("write", (skill,), reason, Author.AGENT, paths=(skill,), **fields)
        _, commit = await self.history.record(change, lambda: self.put(path, content))
        assert commit is not None
        return commit

    async def do(
        self, work: Callable[[], object], *paths: str, reason: str = "work"
    ) -> SkillCommit:
        change = SkillChange("write", (), reason, Author.AGENT, paths=paths)
        _, commit = await self.history.record(change, work)
        assert commit is not None
        return commit

    async def reasons(self, skill: str = "") -> list[str]:
        return [each.reason for each in await self.history.log(skill)]


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    return Skills(tmp_path / "skills")

"""Skills for tests, as files."""

from collections.abc import Mapping
from pathlib import Path

from hermes.skills.index import SkillIndex, SkillListing
from hermes.skills.parse import parse_skill
from hermes.skills.skill import Skill, SkillRoot, Source, VisibilityContext

LINUX = VisibilityContext(system="linux")


def put(root: Path, place: str, text: str = "", **fields: str) -> Path:
    """`place/SKILL.md` below `root`: `text` as it is, or a head of `fields` before a short body."""
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    if not text:
        fields = {"name": folder.name, "description": f"Does {folder.name}", **fields}
        head = "\n".join(f"{key}: {value}" for key, value in fields.items())
        text = f"---\n{head}\n---\n# {folder.name}\n\nDo it.\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8", newline="")
    return folder


def skills_in(root: Path, source: Source = Source.USER, cache: Path | None = None) -> SkillIndex:
    return SkillIndex([SkillRoot(root, source)], cache)


def parsed(text: str, folder: str = "the-folder", root: SkillRoot | None = None) -> Skill:
    """The skill of a SKILL.md that is not on disk."""
    root = root or SkillRoot(Path("/skills"), Source.USER)
    return parse_skill(text, root.path / folder, root)


def listing_of(root: Path, skills: Mapping[str, str]) -> SkillListing:
    """`category/name` → description."""
    for place, description in skills.items():
        put(root, place, description=description)
    return skills_in(root).listing()

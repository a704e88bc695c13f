"""Frontmatter of other agents, editors and models, and the parser for simple YAML."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.skills.index import SkillIndex
from hermes.skills.parse import read_frontmatter
from hermes.skills.skill import SkillInvalid, SkillRoot, Source
from tests.cases import cases

CASES = cases(__file__)

FOREIGN = Path(__file__).with_name("foreign")
EXPECTED = json.loads(FOREIGN.with_suffix(".json").read_text("utf-8"))
LOADS: dict[str, dict[str, Any]] = EXPECTED["loads"]
"""By the name each gets; one that has no `warning` here must have none at all."""
BROKEN: dict[str, str] = EXPECTED["broken"]
"""By folder: the reason."""


@pytest.fixture(scope="module")
def collection() -> SkillIndex:
    return SkillIndex([SkillRoot(FOREIGN, Source.EXTERNAL)])


def test_every_one_loads_or_gives_a_clear_reason(collection: SkillIndex):
    assert {skill.name for skill in collection.skills()} == LOADS.keys()
    assert {broken.file.parent.name for broken in collection.broken()} == BROKEN.keys()
    assert len(LOADS) + len(BROKEN) == len(list(FOREIGN.iterdir())) >= 30


@pytest.mark.parametrize("name", LOADS)
def test_skill_loads_with_the_expected_fields(collection: SkillIndex, name: str):
    skill = collection.get(name)
    expected = dict(LOADS[name])
    warning = expected.pop("warning", None)
    for field, value in expected.items():
        found = getattr(skill, field)
        if field == "variables":
            found = [variable.name for variable in found]
        assert (list(found) if isinstance(value, list) else found) == value
    assert bool(skill.warnings) is bool(warning)
    assert warning is None or any(warning in each for each in skill.warnings)


@pytest.mark.parametrize("folder", BROKEN)
def test_the_reason_is_clear(collection: SkillIndex, folder: str):
    (broken,) = [each for each in collection.broken() if each.file.parent.name == folder]
    assert BROKEN[folder] in broken.reason
    assert "\n" not in broken.reason and "Traceback" not in broken.reason
    with pytest.raises(SkillInvalid, match=f"the skill '{folder}' does not load"):
        collection.get(folder)


def test_fields_of_others_are_kept():
    fields, body = read_frontmatter((FOREIGN / "commit-helper" / "SKILL.md").read_text())[:2]
    assert fields["allowed-tools"] == "Read, Grep, Bash(git diff:*), Bash(git log:*)"
    assert fields["disable-model-invocation"] is True
    assert body.startswith("Look at `git diff --cached`")
    fields, _ = read_frontmatter((FOREIGN / "data-room" / "SKILL.md").read_text())[:2]
    assert fields["compatibility"] == "Needs a shell with pdftotext. Works without internet."


@pytest.mark.parametrize("name", ["head-in-a-fence", "head-is-a-fence"])
def test_code_after_a_head_in_a_fence_is_whole(name: str):
    _, body = read_frontmatter((FOREIGN / name / "SKILL.md").read_text())[:2]
    assert body == "# Steps\n\n```bash\nls\n```"


def test_invalid_entries_are_left_out(collection: SkillIndex):
    skill = collection.get("half-settings")
    assert [(each.key, each.default, each.prompt) for each in skill.settings] == [
        ("notes.folder", "~/notes", "Where notes are")
    ]
    assert [file.path for file in skill.credential_files] == ["notes/token.json"]


def test_deep_nesting_is_refused() -> None:
    deep = "\n".join(f"{' ' * depth}a:" for depth in range(200))
    with pytest.raises(SkillInvalid, match="it is nested too deeply"):
        read_frontmatter(f"---\n{deep}\n---\nx")


@pytest.mark.parametrize(("text", "fields"), CASES["common frontmatter is read"])
def test_common_frontmatter_is_read(text: str, fields: dict[str, object]) -> None:
    assert read_frontmatter(f"---\n{text}\n---\nx")[:2] == (fields, "x")

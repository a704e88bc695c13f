"""Frontmatter of other agents, editors and models, and the parser for simple YAML."""

from pathlib import Path
from typing import Any

import pytest

from hermes.skills.index import SkillIndex
from hermes.skills.parse import read_frontmatter
from hermes.skills.skill import SkillInvalid, SkillRoot, Source

FOREIGN = Path(__file__).with_name("foreign")
LOADS: dict[str, dict[str, Any]] = {
    "aliases": {"tags": (), "warning": "tags holds more than a list of words"},
    "brand-voice": {"license": "Complete terms in LICENSE.txt"},
    "colon-in-description": {
        "description": "Release notes: collects merged changes and writes them up. "
        "Use when: a tag is made",
        "version": "0.3.0",
        "warning": "its head is not quite YAML: line 3",
    },
    "comma-lists": {"platforms": ("macos", "linux"), "tags": ("finance", "invoices", "dunning")},
    "commit-helper": {"description": "Writes commit messages from the staged diff."},
    "data-room": {"license": "Apache-2.0", "author": "example-org", "version": "2.1"},
    "commented": {
        "description": "Finds what is worth reading in the papers.",
        "warning": "it has no description",
    },
    "description-as-list": {
        "description": "Resizes pictures; Strips what the camera wrote into them",
        "author": "Anna; Bert",
    },
    "editor-rules": {"description": "Rules for Python files"},
    "flat-metadata": {
        "category": "travel",
        "tags": ("trains", "tickets"),
        "related": ("hotel-search",),
    },
    "folded-description": {
        "description": "Plans a week of meals from what is in the fridge, and writes the shopping "
        "list.",
        "tags": ("cooking", "planning"),
    },
    "four-dashes": {"description": "Longer rules around the head"},
    "half-settings": {"warning": "the setting 'notes.format' has no description"},
    "head-in-a-fence": {
        "description": "Only the head stands in a code fence",
        "warning": "its head stands in a code fence",
    },
    "head-is-a-fence": {
        "description": "A code fence instead of the usual lines",
        "warning": "its head stands in a code fence",
    },
    "impossible-date": {"version": "2025-13-45", "warning": "month must be in 1..12"},
    "in-a-code-fence": {"warning": "all of it stands in a code fence"},
    "indented-lines": {"description": "The lines around the head are indented"},
    "invisible-start": {"description": "Copied from a web page"},
    "json-in-yaml": {"description": "Looks up parcels by their number."},
    "latin-letters": {"description": "Rechnungen prüfen", "warning": "not UTF-8"},
    "legacy-prerequisites": {"variables": ("BLOG_TOKEN", "BLOG_HOST")},
    "licence-comment": {"description": "A comment stands before the head"},
    "list-as-head": {
        "description": "Cleans up old branches after a merge.",
        "warning": "its head holds a list instead of fields",
    },
    "literal-description": {
        "description": "Turns a voice memo into minutes. Use it for: stand-ups, interviews, "
        "lectures."
    },
    "loose-quotes": {
        "description": 'Says "hello" to the people',
        "warning": "its head is not quite YAML: line 3",
    },
    "metadata-as-text": {"tags": ("lights",)},
    "nameless": {"description": "Has no name of its own"},
    "no-head": {
        "description": "Sorts new reports by severity and asks for what is missing before anybody "
        "looks at the code.",
        "warning": "it has no head",
    },
    "no-space": {
        "description": "Nothing stands after the colons",
        "warning": "its head is not quite YAML: it holds text instead of fields",
    },
    "notes-and-a-rule": {
        "description": "What is written between two comments counts.",
        "warning": "it has no head",
    },
    "numbers-as-version": {"version": "1.10", "author": "4711"},
    "other-colons": {
        "description": "Colons and spaces of another keyboard",
        "warning": "its head is not quite YAML: it holds text instead of fields",
    },
    "pdf-form-filler": {"warning": "the name 'PDF Form Filler!' is taken as 'pdf-form-filler'"},
    "saved-as-utf16": {"description": "Grüße aus einem alten Editor", "warning": "saved as UTF-16"},
    "tabs": {"tags": ("tabs", "editors"), "warning": "its head is not quite YAML"},
    "unclosed-head": {"tags": ("draft",), "warning": "the --- after its head is missing"},
    "undescribed": {
        "description": "Checks links on a page, and reports dead ones.",
        "version": "1",
        "warning": "it has no description",
    },
    "variables-as-names": {
        "variables": ("WEATHER_KEY", "WEATHER_CITY"),
        "warning": "'not a variable' is not the name of a variable",
    },
    "windows-editor": {"platforms": ("windows",)},
    "with-nested": {"description": "Another SKILL.md lies inside as an example"},
    "議事録": {"tags": ("会議", "要約")},
}
"""By the name each gets; one that has no `warning` here must have none at all."""
BROKEN = {
    "binary": "it holds binary data",
    "head-only": "it has neither a description nor instructions",
    "lint-all": "it lies too deep: at most 2 categories may stand above it",
    "nothing-in-it": "it has neither a description nor instructions",
    "saved-as-utf32": "it holds binary data",
    "template": "its head is not valid YAML: line 2",
    "toml-head": "its head is TOML",
    "too-deep": "its head is not valid YAML: it is nested too deeply",
    "wrong-file-name": "it must be called SKILL.md, not skill.md",
    "🎉": "'🎉' cannot be a name",
}
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
    found = {field: getattr(skill, field) for field in expected}
    if "variables" in found:
        found["variables"] = tuple(variable.name for variable in skill.variables)
    assert found == expected
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


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name: pdf-tools\nversion: 1.0.2", {"name": "pdf-tools", "version": "1.0.2"}),
        ("tags: [a, 'b c', \"d\"]", {"tags": ["a", "b c", "d"]}),
        ("a:\n  b:\n    c: d\ne: 1.5", {"a": {"b": {"c": "d"}}, "e": 1.5}),
        ("a:\n- b: X\n  c: it is\n- b: Y", {"a": [{"b": "X", "c": "it is"}, {"b": "Y"}]}),
        ("a:\nb: []\nc: 7", {"a": None, "b": [], "c": 7}),
    ],
)  # fmt: skip
def test_common_frontmatter_is_read(text: str, fields: dict[str, object]) -> None:
    assert read_frontmatter(f"---\n{text}\n---\nx")[:2] == (fields, "x")

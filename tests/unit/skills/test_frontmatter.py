"""Frontmatter of other agents, editors and models, and the parser for simple YAML."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.skills.frontmatter import parse_simple_yaml
from hermes.skills.index import SkillIndex
from hermes.skills.parse import parse_frontmatter
from hermes.skills.skill import SkillInvalid, SkillRoot, Source, bundled_folder, optional_folder

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
def test_it_loads_as_it_was_meant(collection: SkillIndex, name: str):
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
    fields, body = parse_frontmatter((FOREIGN / "commit-helper" / "SKILL.md").read_text())
    assert fields["allowed-tools"] == "Read, Grep, Bash(git diff:*), Bash(git log:*)"
    assert fields["disable-model-invocation"] is True
    assert body.startswith("Look at `git diff --cached`")
    fields, _ = parse_frontmatter((FOREIGN / "data-room" / "SKILL.md").read_text())
    assert fields["compatibility"] == "Needs a shell with pdftotext. Works without internet."


@pytest.mark.parametrize("name", ["head-in-a-fence", "head-is-a-fence"])
def test_code_after_a_head_in_a_fence_is_whole(name: str):
    _, body = parse_frontmatter((FOREIGN / name / "SKILL.md").read_text())
    assert body == "# Steps\n\n```bash\nls\n```"


def test_what_is_wrong_in_entries_is_left_out(collection: SkillIndex):
    skill = collection.get("half-settings")
    assert [(each.key, each.default, each.prompt) for each in skill.settings] == [
        ("notes.folder", "~/notes", "Where notes are")
    ]
    assert [file.path for file in skill.credential_files] == ["notes/token.json"]


ATOMS = (
    "name", "description", "tags", "on", "Yes", "a-b_c", "null", "~", "1.2.3", "1.10", "12",
    "012", "0x1f", "1e3", "12:30", "2026-01-02", "true", "TRUE", "off", "word", "two words",
    "a: b", "a:", "http://x.org:80/y", "'single'", '"double"', "'it''s'", '"a\\n"', '" spaced "',
    "''", "[]", "[a, b]", "[a b, c]", '[a, \'b\', "c d"]', "[a, on]", "[a,]", "[1, a]", "[a",
    "{a: b}", "|", ">", ">-", "&anchor x", "*anchor", "!!str x", "- x", "-", "--- ", "?", "? x",
    "% x", "@x", "`x`", "=", "<<", "a # b", "a#b", "# all", "ä ö", "é", "naïve — text", "x\ty",
    "a\xa0b", "a\u2028b", "\x85", "🙂", "a, b", "...", "a [b]", "a 'b'", "- a: b", "-  a", "0",
    "-1", ".5", "1.", "1_000", "y", "n",
)  # fmt: skip
lines = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "  ", "  ", "    ", " ", "      ", "\t"]),
    st.sampled_from(["", "", "", "- ", "- ", "-  "]),
    st.sampled_from(["", "", "name: ", "tags:", "a-b:  ", "on: ", "x:", "é: ", "two words: "]),
    st.one_of(st.sampled_from(ATOMS), st.sampled_from(["", "", ""]), st.text(max_size=6)),
)


@given(st.lists(lines, min_size=1, max_size=7).map("\n".join))
@example("tags:\n- a\n- b\nname: x")
@example("a:\n  - name: x\n    help: y\n  - name: z\nb: c")
@example("a:\n    b:\n  c: d")
@example("a:\n\n  b: c\n\n\nd: e")
@example("a: b\n  c")
@example("a:\n- b:\n  - c\n- d: e\n  f:\n    g: h")
@example("name: x\nname: y")
@example("name: x\n - ")
def test_simple_parser_agrees_with_yaml_or_gives_up(text: str) -> None:
    found = parse_simple_yaml(text)
    if found is not None:
        whole = yaml.load(text, Loader=yaml.CSafeLoader)
        assert found == whole
        assert repr(found) == repr(whole)  # 1 is not true, nor 1.0


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
def test_common_frontmatter_needs_no_yaml_parser(text: str, fields: dict[str, object]) -> None:
    assert parse_simple_yaml(text) == fields


def test_deep_nesting_is_left_to_the_yaml_parser() -> None:
    assert parse_simple_yaml("\n".join(f"{' ' * depth}a:" for depth in range(2_000))) is None


def test_most_skills_that_come_with_hermes_are_read_so() -> None:
    folders = (bundled_folder(), optional_folder())
    files = [file for folder in folders for file in Path(str(folder)).rglob("SKILL.md")]
    heads = [file.read_text().split("---\n")[1] for file in files]
    found = [(parse_simple_yaml(head), yaml.load(head, Loader=yaml.CSafeLoader)) for head in heads]
    assert all(quick in (None, whole) for quick, whole in found)
    assert sum(quick is not None for quick, _ in found) > len(found) / 2

"""Parsing a SKILL.md."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.skills.parse import read_frontmatter, read_skill, strip_comments
from hermes.skills.skill import Conditions, SkillInvalid, SkillRoot, Source, normalize_name
from tests.cases import cases
from tests.unit.skills.skill_files import parsed

CASES = cases(__file__)

FULL = Path(__file__).with_name("full.md").read_text("utf-8")


def test_every_documented_field_is_read():
    skill = parsed(FULL, "research/arxiv")
    assert (skill.name, skill.description, skill.category) == ("arxiv", "Finds papers", "research")
    assert (skill.version, skill.author, skill.license) == ("2.0.1", "Somebody", "MIT")
    assert skill.platforms == ("macos", "linux")
    assert skill.tags == ("research", "papers")
    assert skill.related == ("citations",)
    assert skill.conditions == Conditions(("terminal",), ("web",), ("paper_search",), ("papers",))
    (variable,) = skill.variables
    assert variable.name == "ARXIV_KEY"
    assert (variable.prompt, variable.help) == ("Key of the service", "See your account")
    assert variable.required_for == "full texts"
    assert [(file.path, file.description) for file in skill.credential_files] == [
        ("arxiv/token.json", "OAuth token")
    ]
    assert [(each.key, each.default, each.prompt) for each in skill.settings] == [
        ("arxiv.folder", "~/papers", "Where do you keep papers?"),
        ("arxiv.limit", 10, "Most results"),
    ]
    assert skill.warnings == ()


def test_the_head_and_the_text_after_it():
    fields, body = read_frontmatter("---\nname: x\nunknown: {a: 1}\n---\n\nText\n---\nmore\n")[:2]
    assert fields == {"name": "x", "unknown": {"a": 1}}
    assert body == "Text\n---\nmore"


def test_a_skill_of_a_plugin_carries_its_name():
    root = SkillRoot(Path("/plugins/mail/skill"), Source.PLUGIN, "mail")
    skill = parsed("---\nname: inbox\ndescription: d\n---\nx", ".", root)
    assert skill.name == "mail:inbox"
    assert skill.category == "mail"


@pytest.mark.parametrize(
    ("place", "category"), [("x", ""), ("a/x", "a"), ("a/b/x", "a/b")], ids=["none", "one", "two"]
)
def test_category_is_the_parent_folders(place: str, category: str):
    assert parsed("---\ndescription: d\n---\nx", place).category == category


def test_the_category_of_the_head_counts_only_without_a_folder():
    text = "---\ndescription: d\nmetadata: {hermes: {category: said}}\n---\nx"
    assert parsed(text, "x").category == "said"
    assert parsed(text, "folder/x").category == "folder"


@pytest.mark.parametrize(("written", "name"), CASES["names are normalized"])
def test_names_are_normalized(written: str, name: str):
    assert normalize_name(written) == name


@pytest.mark.parametrize("name", ["!!!", '"../.."', "[a, b]", "{a: b}", "~"])
def test_invalid_name_is_replaced_by_the_folder_name(name: str):
    assert parsed(f"---\nname: {name}\ndescription: d\n---\nx").name == "the-folder"


@pytest.mark.parametrize("name", ["off", "yes", "No", "1.10", "42"])
def test_name_that_yaml_reads_as_another_type_is_kept(name: str):
    assert parsed(f"---\nname: {name}\ndescription: d\n---\nx").name == name.lower()


def test_a_long_name_and_a_long_description_are_cut():
    skill = parsed(f"---\nname: {'n' * 80}\ndescription: {'d' * 2000}\n---\nx")
    assert len(skill.name) == 64
    assert len(skill.description) == 1024
    assert len(skill.warnings) == 2


@pytest.mark.parametrize(("written", "platforms"), CASES["platforms by other names"])
def test_platforms_by_other_names(written, platforms):
    skill = parsed(f"---\ndescription: d\nplatforms: {written}\n---\nx")
    assert list(skill.platforms) == platforms


def test_unknown_platform_is_kept_with_a_warning():
    skill = parsed("---\ndescription: d\nplatforms: [plan9]\n---\nx")
    assert skill.platforms == ("plan9",)
    assert skill.warnings == ("the platform 'plan9' is not known",)


def test_variables_of_both_kinds_are_put_together():
    skill = parsed(
        "---\ndescription: d\nprerequisites: {env_vars: 'A_KEY, B_KEY'}\n"
        "required_environment_variables: [{name: B_KEY, prompt: B?}]\n---\nx"
    )
    assert [(each.name, each.prompt) for each in skill.variables] == [
        ("A_KEY", ""),
        ("B_KEY", "B?"),
    ]


def test_defaults_are_plain_values():
    skill = parsed(
        "---\ndescription: d\nmetadata: {hermes: {config: ["
        "{key: a, description: d, default: 2026-01-02},"
        "{key: b, description: d, default: [1, two, true]},"
        "{key: c, description: d, default: {x: 1}},"
        "{key: d, description: d, default: .inf}]}}\n---\nx"
    )
    assert [each.default for each in skill.settings] == [
        "2026-01-02",
        [1, "two", True],
        None,
        "inf",
    ]


@pytest.mark.parametrize("head", CASES["values that need quotes are understood"])
def test_values_that_need_quotes_are_understood(head: str):
    skill = parsed(f"---\nname: x\n{head}\nversion: 1.0.0\n---\nBody")
    written = " ".join(head.removeprefix("description: ").split())
    assert skill.description == written
    assert skill.version == "1.0.0"
    assert skill.warnings


def test_text_block_survives_repair_of_another_line():
    skill = parsed("---\ndescription: |\n  Note: one: two\ntitle: a: b\n---\nx")
    assert skill.description == "Note: one: two"


def test_a_rule_in_the_text_does_not_end_an_unclosed_head():
    skill = parsed("---\nname: x\ndescription: d\n# Title\nText\n---\nmore")
    assert skill.description == "d"
    assert "the --- after its head is missing" in skill.warnings


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str):
    for each in (text, f"---\n{text}\n---\nBody", f"---\ndescription: {text}\n---\n"):
        try:
            skill = parsed(each)
        except SkillInvalid as error:
            assert str(error) and "\n" not in str(error)
        else:
            assert skill.name and skill.description
            assert skill.description.isprintable()


def test_a_missing_file_is_a_clear_error(tmp_path: Path):
    with pytest.raises(SkillInvalid, match="it cannot be read: no such file"):
        read_skill(tmp_path / "SKILL.md", SkillRoot(tmp_path, Source.USER))


def test_example_at_the_start_is_not_frontmatter():
    text = "```yaml\nkind: Pod\n```\n\nWrite it so.\n"
    assert read_frontmatter(text)[:2] == ({}, text)


@pytest.mark.parametrize(("text", "left"), CASES["only comments on lines of their own go"])
def test_only_comments_on_lines_of_their_own_go(text: str, left: str):
    assert strip_comments(text) == left


def test_many_unclosed_comments_take_linear_time():
    text = "<!--\n" * 100_000
    assert strip_comments(text) == text

"""What the quick reader understands means the same in YAML; the rest it leaves alone."""

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.skills.frontmatter import parse_simple_yaml
from hermes.skills.skill import bundled_folder, optional_folder

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
def test_it_reads_as_yaml_does_or_not_at_all(text: str) -> None:
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
def test_usual_heads_need_no_more(text: str, fields: dict[str, object]) -> None:
    assert parse_simple_yaml(text) == fields


def test_a_deep_pile_is_left_to_the_parser_that_limits_it() -> None:
    assert parse_simple_yaml("\n".join(f"{' ' * depth}a:" for depth in range(2_000))) is None


def test_most_skills_that_come_with_hermes_are_read_so() -> None:
    folders = (bundled_folder(), optional_folder())
    files = [file for folder in folders for file in Path(str(folder)).rglob("SKILL.md")]
    heads = [file.read_text().split("---\n")[1] for file in files]
    found = [(parse_simple_yaml(head), yaml.load(head, Loader=yaml.CSafeLoader)) for head in heads]
    assert all(quick in (None, whole) for quick, whole in found)
    assert sum(quick is not None for quick, _ in found) > len(found) / 2

"""The list of skills in the prompt: rendering, ranking and search."""

import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from hermes.skills.index import SkillIndex
from hermes.skills.prompt import (
    INTRODUCTION,
    MAX_TEXTS,
    SHORT_TEXT,
    SkillsPrompt,
    search_skills,
    skills_prompt,
)
from hermes.skills.skill import (
    SkillRoot,
    SkillUsage,
    Source,
    UsageRecord,
    VisibilityContext,
    bundled_folder,
    optional_folder,
)
from tests.cases import cases
from tests.unit.skills.skill_files import LINUX, listing_of, put, skills_in

CASES = cases(__file__)

NOW = 1_800_000_000.0
DAY = 86_400


def index(
    listing, budget: int = 3000, usage: Mapping[str, UsageRecord] | None = None, hints=()
) -> str:
    return skills_prompt(listing, LINUX, usage or {}, budget, NOW, hints)


def described(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line[2:].partition(":")[0] for line in lines if line.startswith("- ")]


def listed(text: str) -> list[str]:
    """The skills with a description, then those that follow the name of their category."""
    inside = text.partition("<available_skills>\n")[2].splitlines()
    plain = [
        line.partition(": ")[2] for line in inside if ": " in line and line[0] not in " 0123456789"
    ]
    return described(text) + [name for names in plain for name in names.split(", ")]


def many(root: Path, count: int = 200) -> dict[str, str]:
    return {
        f"category-{number % 10}/skill-{number:03}": f"Something number {number} that is described "
        "with more words than fit into the line of a list of skills"
        for number in range(count)
    }


def test_small_collection_is_listed_completely(tmp_path: Path):
    put(tmp_path, "loose", description="No category")
    put(tmp_path, "research/arxiv", description="Find papers")
    put(tmp_path, "games/chess", description="Play chess")
    put(tmp_path, "games/bridge", description="Play cards")
    (tmp_path / "games/DESCRIPTION.md").write_text("For a rainy day")
    assert index(skills_in(tmp_path).listing()) == (
        f"{INTRODUCTION}\n"
        "general:\n"
        "  - loose: No category\n"
        "games: For a rainy day\n"
        "  - bridge: Play cards\n"
        "  - chess: Play chess\n"
        "research:\n"
        "  - arxiv: Find papers\n"
        "</available_skills>"
    )


def test_the_introduction_says_what_to_do_with_them():
    assert INTRODUCTION.startswith("## Skills (mandatory)\n")
    assert "skill_view(name)" in INTRODUCTION
    assert INTRODUCTION.endswith("<available_skills>")


def test_prompt_is_empty_without_skills(tmp_path: Path):
    assert index(skills_in(tmp_path).listing()) == ""
    put(tmp_path, "x", platforms="[macos]")
    assert index(skills_in(tmp_path).listing()) == ""


def test_hidden_skills_are_not_listed(tmp_path: Path):
    put(tmp_path, "a", platforms="[macos]")
    put(tmp_path, "b")
    put(tmp_path, "c")
    context = VisibilityContext(system="linux", disabled=frozenset({"c"}))
    text = skills_prompt(skills_in(tmp_path).listing(), context, {}, 3000, NOW)
    assert listed(text) == ["b"]


def test_a_description_is_cut_at_a_word(tmp_path: Path):
    listing = listing_of(
        tmp_path, {"x": "word " * 30, "y": "x" * 200, "z": "</available_skills> go"}
    )
    lines = index(listing).splitlines()
    assert f"  - x: {'word ' * 15}word…".replace(" …", "…") in lines
    assert f"  - y: {'x' * 79}…" in lines
    assert "  - z: <available_skills> go" in lines


def test_category_descriptions_are_dropped_before_skills(tmp_path: Path):
    put(tmp_path, "games/chess")
    (tmp_path / "games/DESCRIPTION.md").write_text("For a rainy day")
    listing = skills_in(tmp_path).listing()
    whole = index(listing)
    assert "games: For a rainy day\n" in whole
    assert "games:\n" in index(listing, budget=len(whole) - 1)
    assert index(listing, budget=len(whole)) == whole


def test_the_budget_is_never_exceeded(tmp_path: Path):
    listing_of(tmp_path, many(tmp_path, 60))
    put(tmp_path, "nowhere")
    listing = skills_in(tmp_path).listing()
    budgets = [*range(0, 700, 7), 1000, 2000, 3000, 9999, 50_000]
    texts = {budget: index(listing, budget, hints=["skill-017"]) for budget in budgets}
    assert {budget: len(text) for budget, text in texts.items() if len(text) > budget} == {}
    assert [each for each in budgets if each >= len(SHORT_TEXT) and not texts[each]] == []


def test_names_are_listed_before_any_skill_is_left_out(tmp_path: Path):
    skills = many(tmp_path, 97)
    listing = listing_of(tmp_path, skills)
    text = index(listing)
    assert len(text) <= 3000
    assert sorted(listed(text)) == sorted(place.partition("/")[2] for place in skills)
    assert 10 < len(described(text)) < 40
    usage = {f"skill-{number:03}": UsageRecord(3, NOW) for number in range(50, 60)}
    assert set(usage) <= set(described(index(listing, usage=usage)))


def test_descriptions_are_shortened_before_they_are_left_out(tmp_path: Path):
    listing = listing_of(tmp_path, many(tmp_path, 37))
    whole, text = index(listing, 9999), index(listing)
    assert len(whole) > 3000 >= len(text)
    assert described(text) == described(whole)


def test_all_bundled_skills_are_in_the_list_of_a_new_home():
    optional = optional_folder()
    roots = [SkillRoot(each, Source.BUNDLED) for each in (bundled_folder(), optional) if each]
    for listing in (SkillIndex(roots[:1]).listing(), SkillIndex(roots).listing()):
        names = [entry.name for entry in listing.entries]
        hidden = {names[at] for at in listing.hidden(LINUX)}
        text = index(listing)
        assert (len(text) <= 3000, set(listed(text))) == (True, set(names) - hidden)


def test_skills_beyond_the_limit_are_counted_and_searchable(tmp_path: Path):
    text = index(listing_of(tmp_path, many(tmp_path, 400)))
    shown = listed(text)
    assert 100 < len(shown) < 200
    assert 10 < len(described(text)) < 40
    assert f"{400 - len(shown)} more (category-0, category-1, " in text
    assert "): skills_list(query) finds them.\n</available_skills>" in text


def test_every_category_is_represented_while_nothing_is_known(tmp_path: Path):
    text = index(listing_of(tmp_path, many(tmp_path, 400)))
    assert all(f"\ncategory-{number}:" in text for number in range(10))
    assert {name[-1] for name in described(text)} == set("0123456789")


def test_used_skills_are_listed_the_most_and_latest_first(tmp_path: Path):
    listing = listing_of(tmp_path, many(tmp_path))
    usage = {
        "skill-150": UsageRecord(5, NOW - DAY / 2),
        "skill-151": UsageRecord(40, NOW - 200 * DAY),
        "skill-152": UsageRecord(1, NOW - 20 * DAY),
        "gone": UsageRecord(9, NOW),
    }
    assert {"skill-150", "skill-151", "skill-152"} <= set(listed(index(listing, usage=usage)))
    small = len(index(listing, 600))
    assert small <= 600
    assert "skill-150" in listed(index(listing, 600, usage))


def test_skills_that_fit_the_work_at_hand_are_listed(tmp_path: Path):
    skills = many(tmp_path)
    long = ", and more of the same" * 5
    skills["category-9/z-notebook-tools"] = f"Runs and cleans{long}"
    skills["category-9/zoo"] = f"Feeds animals, such as the python, in containers{long}"
    listing = listing_of(tmp_path, skills)
    assert not {"z-notebook-tools", "zoo"} & set(listed(index(listing, 1500)))
    assert "z-notebook-tools" in listed(index(listing, 1500, hints=["analysis.ipynb", "src"]))
    assert "zoo" in listed(index(listing, 1500, hints=["pyproject.toml"]))
    assert "zoo" in listed(index(listing, 1500, hints=["Dockerfile"]))
    assert index(listing, 1500, hints=["src", "tests"]) == index(listing, 1500)


def test_own_skills_rank_before_bundled_ones(tmp_path: Path):
    listing_of(tmp_path / "bundled", many(tmp_path))
    own = {f"own/zz-{number}": "Mine" for number in range(5)}
    listing_of(tmp_path / "own", own)
    skills = SkillIndex(
        [SkillRoot(tmp_path / "own", Source.USER), SkillRoot(tmp_path / "bundled", Source.BUNDLED)]
    )
    assert {f"zz-{number}" for number in range(5)} <= set(listed(index(skills.listing(), 900)))


def test_the_same_inputs_give_the_same_text(tmp_path: Path):
    listing_of(tmp_path, many(tmp_path))
    usage = {"skill-150": UsageRecord(5, NOW), "skill-003": UsageRecord(5, NOW)}
    first = index(skills_in(tmp_path).listing(), usage=usage, hints=["skill-100", "b", "a"])
    again = index(
        skills_in(tmp_path).listing(),
        usage=dict(reversed(usage.items())),
        hints=["a", "b", "skill-100"],
    )
    assert first == again
    later = skills_prompt(
        skills_in(tmp_path).listing(), LINUX, usage, 3000, NOW + 3600, ["skill-100", "b", "a"]
    )
    assert later == first


@pytest.fixture
def cached(tmp_path: Path):
    """Makes the prompt of a new process that finds the caches of earlier ones."""
    put(tmp_path / "skills", "a/one", description="first")

    def make() -> SkillsPrompt:
        skills = skills_in(tmp_path / "skills", cache=tmp_path / "cache/skills.json")
        usage = SkillUsage(tmp_path / "usage.json")
        return SkillsPrompt(skills, usage, tmp_path / "cache/prompt.json")

    return make


def test_finished_text_is_taken_from_the_cache_file(tmp_path: Path, cached):
    first = cached().text(LINUX, 3000, NOW)
    assert listed(first) == ["one"]
    file = tmp_path / "cache/prompt.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(file.read_text().replace("first", "FIRST"))
    assert cached().text(LINUX, 3000, NOW) == first.replace("first", "FIRST")
    file.write_text("{")
    assert cached().text(LINUX, 3000, NOW) == first


def test_cached_text_follows_each_of_its_inputs(tmp_path: Path, cached):
    skills = tmp_path / "skills"
    same = cached()
    assert listed(same.text(LINUX, 3000, NOW)) == ["one"]
    off = VisibilityContext(system="linux", disabled=frozenset({"one"}))
    assert same.text(off, 3000, NOW) == cached().text(off, 3000, NOW) == ""
    assert same.text(LINUX, 100, NOW) == cached().text(LINUX, 100, NOW) == SHORT_TEXT
    put(skills, "a/one", description="changed")
    put(skills, "a/two")
    for prompt in (same, cached()):
        assert "one: changed" in prompt.text(LINUX, 3000, NOW)
        assert listed(prompt.text(off, 3000, NOW)) == ["two"]
    listing_of(skills, {**many(skills), "category-9/z-bakery": "Bake bread, " * 19})
    assert "bakery" not in same.text(LINUX, 900, NOW)
    assert "bakery" in same.text(LINUX, 900, NOW, ["bakery", "not \udcff UTF-8"])
    SkillUsage(tmp_path / "usage.json").record("skill-140", NOW)
    for prompt in (same, cached()):
        assert "skill-140" in prompt.text(LINUX, 900, NOW)


def test_cache_file_has_the_newest_texts(tmp_path: Path, cached):
    for budget in range(1000, 1000 + MAX_TEXTS + 3):
        cached().text(LINUX, budget, NOW)
    assert (tmp_path / "cache/prompt.json").read_text().count("</available_skills>") == MAX_TEXTS


SKILLS = CASES["skills"]


@pytest.fixture
def skills(tmp_path: Path):
    for place, (description, tags) in SKILLS.items():
        put(tmp_path, place, description=description, tags=f"[{tags}]")
    return skills_in(tmp_path).entries()


@pytest.mark.parametrize(("query", "found"), CASES["search returns the best match first"])
def test_search_returns_the_best_match_first(skills, query: str, found: list[str]):
    assert [skill.name for skill in search_skills(skills, query, 10)] == found


def test_no_more_than_asked_for(skills):
    assert len(search_skills(skills, "pdf", 1)) == 1


@pytest.mark.parametrize("half", ["tuned", "held out"])
def test_everyday_queries_find_the_right_skill_among_the_first_four(half: str):
    """The word lists were written with the queries `tuned` in view, before the others existed."""
    folders = [each for each in (bundled_folder(), optional_folder()) if each]
    index = SkillIndex([SkillRoot(each, Source.BUNDLED) for each in folders])
    queries, read = (
        CASES["everyday queries and the skills that fit"][half],
        cache(index.instructions),
    )
    found = {
        query: [skill.name for skill in search_skills(index.entries(), query, 4, read)]
        for query, _ in queries
    }
    missed = [
        [query, *found[query]] for query, fit in queries if not {*fit.split()} & {*found[query]}
    ]
    assert len(missed) <= len(queries) / 5, missed


def test_instructions_are_searched_with_other_forms_and_similar_words(tmp_path: Path):
    put(tmp_path, "a/oven", "---\ndescription: Bake\n---\n## Troubleshooting\nIf the dough rises.")
    put(tmp_path, "a/other", description="Bake cakes")
    index = skills_in(tmp_path)

    def names(query: str) -> list[str]:
        return [each.name for each in search_skills(index.entries(), query, 9, index.instructions)]

    assert names("the rising dough") == names("troubleshoot it") == ["oven"]
    assert names("baking") == ["other", "oven"]
    (tmp_path / "a/oven/SKILL.md").unlink()
    assert search_skills([], "dough", 9) == []

"""Checks of a draft, and similarity to existing skills."""

import pytest

from hermes.skills.index import SkillIndex
from hermes.skills.parse import read_instructions
from hermes.skills.skill import SkillRoot, Source, bundled_folder, optional_folder
from hermes.skills.writing.draft import ChangeRefused, most_similar, replace_text
from tests.cases import cases
from tests.integration.skills.writing.conftest import text

CASES = cases(__file__)

TEXT = "one\n  two  words\nthree\n\none\n"


@pytest.mark.parametrize(("old", "new", "result"), CASES["places"])
def test_the_one_place_is_found_exactly_or_but_for_spaces(old, new, result):
    assert replace_text(TEXT, old, new, replace_all=False) == result


def test_line_ends_stay_those_of_the_file():
    assert replace_text("a\r\nb  c\r\nd", "b c", "x\ny", replace_all=False) == "a\r\nx\r\ny\r\nd"
    assert replace_text("a\nb  c", "b c", "x", replace_all=False) == "a\nx"


def test_several_places():
    with pytest.raises(ChangeRefused, match="is in it 2 times"):
        replace_text(TEXT, "one", "1", replace_all=False)
    assert replace_text(TEXT, "one", "1", replace_all=True).count("1\n") == 2
    with pytest.raises(ChangeRefused, match="is in it 2 times"):
        replace_text("a  b\na  b\n", "a b", "x", replace_all=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [("", "x", "is empty"), (" \n", "x", "is empty"), ("a", "a", "the same"),
     ("four", "4", "is not in it")],
)  # fmt: skip
def test_ambiguous_or_missing_old_string_is_refused(old, new, problem):
    with pytest.raises(ChangeRefused, match=problem):
        replace_text(TEXT, old, new, replace_all=False)


SEEN = "# Steps\n\n1. Look:\n\n```bash\nls\n```\n2. Go.\n"


@pytest.mark.parametrize(
    "old", ["1. Look:\n\n```bash\nls", "1. Look:\n\n<!--  tried -->\n```bash\nls"]
)
def test_hidden_comments_do_not_prevent_a_match(old):
    text = SEEN.replace("```bash", "<!-- tried -->\n```bash")
    assert (
        replace_text(text, old, "1. See", replace_all=False) == "# Steps\n\n1. See\n```\n2. Go.\n"
    )


def test_comment_is_replaced_only_by_exact_match():
    with pytest.raises(ChangeRefused, match="is not in it"):
        replace_text(SEEN, "<!-- gone -->", "x", replace_all=False)


BACKUP = text(
    "postgres-backup",
    "Back up a PostgreSQL database with pg_dump, compress it and copy it to another server",
    "Run pg_dump in custom format, check the exit code, compress with zstd, copy with rsync to the"
    " backup server, verify the checksum there, then prune archives older than thirty days.\n",
)
NEAR = CASES["near"]
FAR = CASES["far"]


@pytest.mark.parametrize("case", NEAR)
async def test_similar_skill_is_refused_once_and_then_created(place, case):
    await place.create("postgres-backup", content=BACKUP)
    name, content = NEAR[case][0], text(*NEAR[case])
    with pytest.raises(ChangeRefused, match="not created: postgres-backup is close") as refused:
        await place.create(name, content=content)
    assert "view postgres-backup and patch it instead" in refused.value.hint
    assert not (place.home / name).exists()
    await place.create(name, content=content)
    assert (place.home / name).exists()


async def test_similar_skill_is_refused_again_in_another_session(place):
    await place.create("postgres-backup", content=BACKUP)
    first = next(iter(NEAR.values()))
    for session in ("s1", "s2"):
        with pytest.raises(ChangeRefused, match="is close"):
            await place.create(first[0], content=text(*first), session=session)


@pytest.mark.parametrize("case", FAR)
async def test_related_skill_is_created_at_once(place, case):
    await place.create("postgres-backup", content=BACKUP)
    created = await place.create(FAR[case][0], content=text(*FAR[case]))
    assert "created" in created.text


async def test_short_ones_are_close_when_they_say_the_same(place):
    await place.create("green-lamp", content=text("green-lamp", "Water plants", "Fill the bucket."))
    again = {
        "garden": text("garden", "Water the plants!", "Take a hose."),
        "flowers": text("flowers", "Keep them alive", "The bucket: fill it."),
    }
    for name, content in again.items():
        with pytest.raises(ChangeRefused, match="green-lamp is close to it: Water plants"):
            await place.create(name, content=content)
    await place.create("kettle", content=text("kettle", "Water boils", "Fill the kettle."))
    await place.create("plants", content=text("plants", "Plants", "Fill it."))


def test_no_two_skills_that_come_with_hermes_are_close():
    folders = [folder for folder in (bundled_folder(), optional_folder()) if folder]
    skills = SkillIndex([SkillRoot(folder, Source.BUNDLED) for folder in folders]).skills()
    assert len(skills) > 40
    for skill in skills:
        others = [each for each in skills if each is not skill]
        assert most_similar(skill.name, read_instructions(skill), others) is None


async def test_bundled_skills_count_too(place):
    with pytest.raises(ChangeRefused, match="servers is close to it"):
        await place.create("server", content=text("server", "Something with a server"))

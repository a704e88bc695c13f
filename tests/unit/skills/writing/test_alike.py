"""A skill that says the same again is found before it is made."""

import pytest

from hermes.skills.index import SkillIndex
from hermes.skills.parse import read_instructions
from hermes.skills.skill import SkillRoot, Source, bundled_folder, optional_folder
from hermes.skills.writing.draft import ChangeRefused, most_similar
from tests.unit.skills.writing.conftest import text

BACKUP = text(
    "postgres-backup",
    "Back up a PostgreSQL database with pg_dump, compress it and copy it to another server",
    "Run pg_dump in custom format, check the exit code, compress with zstd, copy with rsync to the"
    " backup server, verify the checksum there, then prune archives older than thirty days.\n",
)
NEAR = {
    "the words of the name in another order": ("backup-postgres", text("backup-postgres", "Save")),
    "a letter more": ("postgres-backups", text("postgres-backups", "Save what is there")),
    "the description in other words": (
        "database-dump",
        text(
            "database-dump",
            "Back up PostgreSQL databases using pg_dump, compress and copy to another server",
        ),
    ),
    "the same steps under another name": (
        "nightly-archive",
        text(
            "nightly-archive",
            "What to do every evening before the machines are switched off",
            "Run pg_dump in custom format and check its exit code. Compress with zstd and copy with"
            " rsync to the backup server, verify the checksum, prune archives older than thirty"
            " days.\n",
        ),
    ),
    "common words in the name": (
        "how-to-use-the-postgres-backup",
        text("how-to-use-the-postgres-backup", "Save"),
    ),
}
FAR = {
    "another database": (
        "mysql-replication",
        text("mysql-replication", "Set up replication between two MySQL servers"),
    ),
    "a name with a word in common": (
        "postgres-tuning",
        text("postgres-tuning", "Find slow queries and missing indexes with EXPLAIN"),
    ),
    "short descriptions": ("backup-phone", text("backup-phone", "Photos and contacts of a phone")),
}


@pytest.mark.parametrize("case", NEAR)
async def test_a_close_one_is_named_once_and_then_accepted(place, case):
    await place.create("postgres-backup", content=BACKUP)
    name, content = NEAR[case]
    with pytest.raises(ChangeRefused, match="not created: postgres-backup is close") as refused:
        await place.create(name, content=content)
    assert "view postgres-backup and patch it instead" in refused.value.hint
    assert not (place.home / name).exists()
    await place.create(name, content=content)
    assert (place.home / name).exists()


async def test_another_session_is_told_again(place):
    await place.create("postgres-backup", content=BACKUP)
    name, content = next(iter(NEAR.values()))
    for session in ("s1", "s2"):
        with pytest.raises(ChangeRefused, match="is close"):
            await place.create(name, content=content, session=session)


@pytest.mark.parametrize("case", FAR)
async def test_what_is_only_related_is_created_at_once(place, case):
    await place.create("postgres-backup", content=BACKUP)
    name, content = FAR[case]
    assert "created" in (await place.create(name, content=content)).text


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

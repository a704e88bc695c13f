"""The agent changes skills: what is kept, where, and what is refused with a way on."""

import os
import re

import pytest

from hermes.core.errors import UsageError
from hermes.skills.history import NO_GIT, SkillHistory
from hermes.skills.history_repo import Author
from hermes.skills.skill import SkillNotFound
from hermes.skills.writing.draft import ChangeRefused, DraftAction, SkillDraft
from hermes.skills.writing.overlays import content_hash, read_overlay
from hermes.skills.writing.writer import SkillWriter
from tests.unit.skills.writing.conftest import no_evil, text


async def test_a_skill_is_created_changed_and_deleted_and_each_step_is_recorded(place):
    made = await place.create("deploy-blog", category="web", reason="done it three times")
    assert re.fullmatch(r"deploy-blog created \(change [0-9a-f]{8}\)", made.text)
    assert place.skills.get("deploy-blog").category == "web"
    await place.do("patch", "deploy-blog", old_string="Do it.", new_string="Do it well.")
    await place.do("edit", "deploy-blog", content=text("deploy-blog", body="Anew.\n"))
    await place.do(
        "write_file", "deploy-blog", file_path="scripts/go.sh", file_content="#!/bin/sh\n"
    )
    assert os.access(place.home / "web/deploy-blog/scripts/go.sh", os.X_OK)
    await place.do("write_file", "deploy-blog", file_path="references/a b.md", file_content="x\n")
    await place.do("patch", "deploy-blog", file_path="references/a b.md", old_string="x",
                   new_string="y")  # fmt: skip
    assert place.read("web/deploy-blog/references/a b.md") == "y\n"
    gone = await place.do("remove_file", "deploy-blog", file_path="references/a b.md")
    assert gone.text.startswith("references/a b.md of deploy-blog removed (change ")
    assert not (place.home / "web/deploy-blog/references").exists()
    await place.do("delete", "deploy-blog", reason="wrong")
    assert place.there() == []
    assert await place.reasons() == [
        "wrong", "remove_file deploy-blog", "patch deploy-blog", "write_file deploy-blog",
        "write_file deploy-blog", "edit deploy-blog", "patch deploy-blog", "done it three times",
    ]  # fmt: skip
    newest = await place.history.commit()
    assert (newest.session, newest.who, newest.action) == ("s1", "agent", "delete")
    await place.history.undo(newest.id)
    assert place.there() == ["web/deploy-blog/SKILL.md", "web/deploy-blog/scripts/go.sh"]
    assert os.access(place.home / "web/deploy-blog/scripts/go.sh", os.X_OK)


async def test_who_made_a_skill_is_counted(place):
    await place.create("deploy-blog")
    assert place.usage.get("deploy-blog").written_by == "agent"
    await place.do("delete", "deploy-blog")
    assert "deploy-blog" not in place.usage.all()


@pytest.mark.parametrize(
    "name", ["", "Deploy", "a b", "../x", "a/b", "-a", "a-", "a--b", ".a", "é", "x" * 65, "a\n"]
)
async def test_names_that_are_refused(place, name):
    with pytest.raises(UsageError):
        await place.create(name, content=text("deploy"))
    assert not place.home.exists()


@pytest.mark.parametrize("category", ["..", "a/../b", "/etc", "a/b/c", ".hub", "A", "a//b"])
async def test_categories_that_are_refused(place, category):
    with pytest.raises(ChangeRefused, match="cannot be a category"):
        await place.create("deploy", category=category)
    assert not place.home.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("just text", "it has no head"),
        ("---\nname: deploy\n---\nx", "it has no description"),
        ("---\ndescription: d\n---\nx", "the name in its head is not deploy"),
        ("---\nname: other\ndescription: d\n---\nx", "the name in its head is not deploy"),
        ("---\nname: deploy\ndescription: d\n---\n \n", "it has no instructions"),
        ("---\nname: deploy\ndescription: [d]\n---\nx", "it has no description"),
        ("---\nname: deploy\ndescription: d\nx", "the --- after its head is missing"),
        ("---\nname: deploy\ndescription: a: b: c\n---\nx", "not quite YAML"),
        ("+++\nname = 1\n+++\nx", "its head is TOML"),
        (text("deploy", "d" * 1025), "its description has more than 1,024 characters"),
        (text("deploy", body="x" * 2000), "would have 2,0.. characters, the limit is 2,000"),
        (text("deploy", body="EVIL deeds"), r"not kept: evil \(EVIL deeds\)"),
    ],
)
async def test_contents_that_are_refused(place, content, problem):
    with pytest.raises(ChangeRefused, match=problem) as refused:
        await place.create("deploy", content=content)
    assert refused.value.hint
    assert not place.home.exists()
    await place.create("deploy")
    before = place.read("deploy/SKILL.md")
    with pytest.raises(ChangeRefused, match=problem):
        await place.do("edit", "deploy", content=content)
    assert place.read("deploy/SKILL.md") == before


@pytest.mark.parametrize(
    "path",
    [
        "../x", "references/../../x", "/etc/passwd", "references", "references/", "x.md",
        "references/.hidden", ".git/config", "references//x", "references/a\nb", "references\\x",
        "SKILL.md", "other/x.md", "references/ x", ".overlay.json", "references/" + "x" * 200,
    ],
)  # fmt: skip
async def test_paths_that_are_refused(place, path):
    await place.create("deploy")
    for action in ("write_file", "remove_file"):
        with pytest.raises(ChangeRefused):
            await place.do(action, "deploy", file_path=path, file_content="x")
    assert place.there() == ["deploy/SKILL.md"]


async def test_links_that_lead_out_are_not_followed(place, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    await place.create("deploy")
    folder = place.home / "deploy"
    (folder / "references").symlink_to(outside)
    (folder / "assets").mkdir()
    (folder / "assets/x").symlink_to(outside / "precious")
    for path in ("references/new.md", "references/precious", "assets/x"):
        for action in ("write_file", "remove_file", "patch"):
            with pytest.raises(ChangeRefused, match="is a link or a folder"):
                await place.do(action, "deploy", file_path=path, file_content="x",
                               old_string="precious", new_string="gone")  # fmt: skip
    assert [each.name for each in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "precious"


async def test_a_skill_that_is_itself_a_link_is_changed_where_it_is(place, tmp_path):
    place.put(tmp_path, "linked", text("linked"))
    place.home.mkdir(parents=True)
    (place.home / "linked").symlink_to(tmp_path / "linked")
    for action in ("patch", "delete"):
        with pytest.raises(ChangeRefused, match="is not a folder of its own"):
            await place.do(action, "linked", old_string="Do it", new_string="x")
    (place.home / "category").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ChangeRefused, match="is no category"):
        await place.create("x", category="category")


async def test_limits_of_files(place):
    await place.create("deploy")
    with pytest.raises(ChangeRefused, match="at most 500 bytes"):
        await place.do("write_file", "deploy", file_path="assets/x", file_content="é" * 251)
    for number in range(3):
        await place.do("write_file", "deploy", file_path=f"assets/{number}", file_content="x")
    with pytest.raises(ChangeRefused, match="at most 4 files"):
        await place.do("write_file", "deploy", file_path="assets/4", file_content="x")
    await place.do("write_file", "deploy", file_path="assets/1", file_content="again")


async def test_what_is_not_there(place):
    with pytest.raises(SkillNotFound, match="there is no skill 'nothing'"):
        await place.do("patch", "nothing", old_string="a", new_string="b")
    await place.create("deploy")
    with pytest.raises(ChangeRefused, match=r"deploy has no file references/x\.md"):
        await place.do("remove_file", "deploy", file_path="references/x.md")
    with pytest.raises(ChangeRefused, match="there is a skill deploy: How the deploy is done"):
        await place.create("deploy")
    (place.home / "taken").mkdir()
    with pytest.raises(ChangeRefused, match="there is something else in"):
        await place.create("taken")
    with pytest.raises(ChangeRefused, match="is no category"):
        await place.create("inner", category="deploy")


async def test_what_was_wrong_before_is_not_held_against_a_change(place):
    place.put(place.home, "sloppy", "---\nname: Sloppy\n---\nEVIL once\nstep one\n")
    await place.do("patch", "sloppy", old_string="step one", new_string="\nstep 1")
    assert place.read("sloppy/SKILL.md").endswith("EVIL once\n\nstep 1\n")
    with pytest.raises(ChangeRefused, match="evil"):
        await place.do("patch", "sloppy", old_string="step 1", new_string="EVIL twice")
    with pytest.raises(ChangeRefused, match="it has no instructions"):
        await place.do("edit", "sloppy", content="---\nname: sloppy\n---\n")


async def test_a_bundled_skill_is_changed_as_a_copy_and_reset(place):
    original = place.bundled / "devops/servers"
    (original / "scripts").mkdir()
    (original / "scripts/run.sh").write_text("#!/bin/sh\n")
    (original / "scripts/run.sh").chmod(0o755)
    (original / "out").symlink_to("/etc/passwd")
    before = content_hash(original)
    done = await place.do("patch", "servers", old_string="Do it.", new_string="Do it twice.")
    assert "servers patched, in a copy of the bundled one" in done.text
    assert content_hash(original) == before
    assert place.there() == [f"devops/servers/{name}" for name in
                             (".overlay.json", "SKILL.md", "scripts/run.sh")]  # fmt: skip
    assert os.access(place.home / "devops/servers/scripts/run.sh", os.X_OK)
    mark = read_overlay(place.home / "devops/servers")
    assert (mark.name, mark.source, mark.hash) == ("servers", "bundled", before)
    skill = place.skills.get("servers")
    assert (skill.source, skill.folder) == ("user", place.home / "devops/servers")
    await place.do("patch", "servers", old_string="twice", new_string="thrice")
    with pytest.raises(ChangeRefused, match="is a changed copy") as refused:
        await place.do("delete", "servers")
    assert "hermes skills reset servers" in refused.value.hint
    back = await place.writer.reset("servers")
    assert back.text.startswith("servers is the original again")
    assert place.skills.get("servers").source == "bundled"
    assert place.there() == []
    await place.history.undo(back.commit.id)
    assert "thrice" in place.read("devops/servers/SKILL.md")


async def test_files_are_removed_from_a_copy_only(place):
    file = place.bundled / "devops/servers/references/x.md"
    file.parent.mkdir()
    file.write_text("x")
    await place.do("remove_file", "servers", file_path="references/x.md")
    assert file.exists()
    assert not (place.home / "devops/servers/references").exists()


async def test_skills_that_are_not_the_users_stay(place):
    with pytest.raises(ChangeRefused, match="come with Hermes") as refused:
        await place.do("delete", "servers")
    assert "skills.disabled" in refused.value.hint
    with pytest.raises(ChangeRefused, match="brought by a plugin"):
        await place.do("patch", "kit:helper", old_string="Do it", new_string="x")
    with pytest.raises(ChangeRefused, match="servers is not a changed copy"):
        await place.writer.reset("servers")
    assert not place.home.exists()


async def test_a_skill_is_found_by_a_loose_name_and_recorded_under_its_own(place):
    await place.create("deploy-blog", category="web")
    await place.do("patch", "web/Deploy Blog", old_string="Do it", new_string="x")
    assert (await place.history.commit()).skills == ("deploy-blog",)


async def test_what_the_disk_refuses_is_said_and_nothing_changes(place):
    await place.create("deploy")
    (place.home / "deploy/references").write_text("a file where a folder is needed")
    with pytest.raises(ChangeRefused, match="is a link or a folder"):
        await place.do("write_file", "deploy", file_path="references/x.md", file_content="x")
    long = "assets/" + "é" * 125
    with pytest.raises(ChangeRefused, match="cannot be written: File name too long"):
        await place.do("write_file", "deploy", file_path=long, file_content="x")
    assert (await place.reasons())[0] != f"write_file {long}"
    await place.do("patch", "deploy", old_string="Do it", new_string="x")


async def test_what_a_killed_process_left_is_cleared(place):
    await place.create("deploy")
    left = place.home / ".stage-dead/half"
    left.mkdir(parents=True)
    await place.do("patch", "deploy", old_string="Do it", new_string="x")
    assert not left.exists()
    assert list(place.home.glob(".stage-*")) == []


async def test_without_git_skills_are_written_all_the_same(place):
    told: list[str] = []
    history = SkillHistory(place.home, told.append, git="")
    writer = SkillWriter(place.home, place.skills, history, no_evil)
    for name in ("alpha", "beta-two"):
        draft = SkillDraft(
            action=DraftAction.CREATE, name=name, content=text(name), who=Author.REVIEW
        )
        outcome = await writer.manage(draft)
        assert (outcome.text, outcome.commit) == (f"{name} created", None)
    assert told == [NO_GIT]


async def test_the_folder_the_agent_was_shown_is_the_variable_in_the_text(place):
    body = "Run ${HERMES_SKILL_DIR}/scripts/a.py\n"
    await place.create("deploy", content=text("deploy", body=body))
    shown = f"{place.home}/deploy/scripts"
    await place.do("patch", "deploy", old_string=f"{shown}/a.py", new_string=f"{shown}/b.py")
    assert place.read("deploy/SKILL.md").endswith("Run ${HERMES_SKILL_DIR}/scripts/b.py\n")


@pytest.mark.parametrize("damage", ["---\n[broken\n---\n", None])
async def test_a_copy_that_does_not_load_any_more_is_reset(place, damage):
    await place.do("patch", "servers", old_string="Do it.", new_string="Do it twice.")
    copy = place.home / "devops/servers/SKILL.md"
    copy.unlink() if damage is None else copy.write_text(damage)
    assert place.skills.get("servers").source == "bundled"
    assert place.writer.overlay_of("devops/Servers").source == "bundled"
    await place.writer.reset("devops/Servers")
    assert place.there() == []


async def test_a_copy_under_another_name_is_reset_by_it(place):
    await place.do("patch", "servers", old_string="Do it.", new_string="Do it twice.")
    copy = place.home / "devops/servers/SKILL.md"
    copy.write_text(copy.read_text().replace("name: servers", "name: machines"))
    await place.writer.reset("machines")
    assert place.there() == []

"""Where the notes of users, chats and projects are."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.memory.notes import MemoryScope, note_locations, safe_name

ROOT = Path("/home/alice/.hermes/memories")

wild_ids = st.text(st.characters(), min_size=1, max_size=60) | st.sampled_from(
    ["..", ".", "/", "../../etc", "a/b", "A", "a", "ä", "CON", "x" * 500, "\0", "\ud800", " "]
)


def test_the_owner_has_the_documented_files() -> None:
    found = note_locations(ROOT, MemoryScope())
    assert {target: place.file for target, place in found.items()} == {
        "memory": ROOT / "MEMORY.md",
        "user": ROOT / "USER.md",
    }


def test_others_chats_and_projects_have_folders_people_can_read() -> None:
    scope = MemoryScope(user="telegram:42", chat="-100 Family", project="/srv/My Site/")
    found = note_locations(ROOT, scope)
    assert list(found) == ["memory", "project", "chat", "user"]
    folders = {target: place.file.relative_to(ROOT).as_posix() for target, place in found.items()}
    assert folders["memory"].startswith("users/telegram-42-")
    assert folders["user"] == folders["memory"].replace("MEMORY.md", "USER.md")
    assert folders["chat"].startswith("chats/100-family-")
    assert folders["project"].startswith("projects/my-site-")
    assert found["project"].owner == "project /srv/My Site"
    assert found["chat"].owner == "chat -100 Family"
    assert found["user"].owner == "user telegram:42"


def test_two_projects_of_one_name_are_apart_and_a_trailing_slash_is_none() -> None:
    def file(path: str) -> Path:
        return note_locations(ROOT, MemoryScope(project=path))["project"].file

    assert file("/a/site") != file("/b/site")
    assert file("/a/site") == file("/a/site/") == file("/a/x/../site")
    assert file("/").parent.parent == ROOT / "projects"


@pytest.mark.parametrize("field", ["user", "chat", "project"])
@given(wild_ids)
def test_no_id_leads_out_of_the_folder(field: str, name: str) -> None:
    for target, place in note_locations(ROOT, MemoryScope(**{field: name})).items():
        relative = place.file.relative_to(ROOT)
        assert ".." not in relative.parts
        assert len(relative.parts) in (1, 3), target
        assert all(part.isascii() and len(part) < 80 for part in relative.parts)


@given(wild_ids, wild_ids)
def test_no_two_ids_share_a_folder_even_where_case_does_not_count(one: str, other: str) -> None:
    assert (safe_name(one).lower() == safe_name(other).lower()) == (one == other)

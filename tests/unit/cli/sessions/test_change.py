import pytest


def titles(hermes):
    return {one["id"]: one["title"] for one in hermes("list", "--all", "--json").document}


def test_a_session_is_renamed(hermes):
    assert "now called My zebra" in hermes("rename", "20260102", "My", "zebra").out
    assert titles(hermes)["20260102_bbbb"] == "My zebra"


def test_characters_that_do_not_show_are_taken_out_of_a_title(hermes):
    hermes("rename", "20260102", "a\u202eb\x1b\u200bc\td")
    assert titles(hermes)["20260102_bbbb"] == "abc d"


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("x" * 101, "101 characters; at most 100"),
        ("the plan", "already that of session 20260101_aaaa"),
        ("   ", "only spaces"),
        ("", "only spaces"),
        ("\u202e\u200b", "no visible character"),
    ],
)
def test_a_title_that_cannot_be_is_refused(hermes, title, said):
    before = titles(hermes)
    outcome = hermes("rename", "20260102", title)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err
    assert titles(hermes) == before


def test_archived_sessions_leave_the_list_and_come_back(hermes):
    assert hermes("archive", "the plan", "20260102").code == 0
    assert hermes("list").out == "no sessions yet\n"
    assert "zebra" in hermes("search", "zebra").out
    hermes("unarchive", "20260102")
    assert hermes("list").out.startswith("20260102_bbbb")


def test_nothing_is_archived_when_one_name_is_wrong(hermes):
    assert hermes("archive", "the plan", "nobody").code == 2
    assert hermes("list", "--archived").out == "no such sessions\n"


def test_a_branch_goes_on_by_itself(hermes):
    made = hermes("branch", "20260102", "--title", "other way", "--json").document
    assert (made["title"], made["parent_id"]) == ("other way", "20260102_bbbb")
    assert "what is a zebra?" in hermes("show", "other way").out
    outcome = hermes("branch", "the plan")
    assert "(the plan #2) from 20260101_aaaa (the plan)" in outcome.out
    assert "hermes --resume 20" in outcome.out


def test_a_branch_with_a_wrong_title_is_not_made(hermes):
    for title in ("the plan", "x" * 200):
        assert hermes("branch", "20260102", "--title", title).code == 2
    assert len(hermes.ids()) == 2

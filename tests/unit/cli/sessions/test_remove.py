import time

import pytest

from tests.unit.cli.sessions.conftest import DAY


def test_deleting_asks_at_a_terminal_and_the_default_is_no(hermes):
    outcome = hermes("delete", "the plan", typed="\n")
    assert outcome.code == 1
    assert outcome.out.startswith("Delete 20260101_aaaa (the plan) with 3 messages? [y/N] ")
    assert outcome.out.endswith("nothing was deleted\n")
    assert len(hermes.ids()) == 2
    assert hermes("delete", "the plan", typed="y\n").code == 0
    assert hermes.ids() == {"20260102_bbbb"}


def test_deleting_needs_yes_when_nobody_can_be_asked(hermes):
    outcome = hermes("delete", "the plan")
    assert (outcome.code, "needs --yes" in outcome.err) == (2, True)
    assert len(hermes.ids()) == 2
    assert hermes("delete", "the plan", "--yes").out == "deleted 20260101_aaaa (the plan)\n"
    assert hermes.ids() == {"20260102_bbbb"}
    assert hermes("delete", "the plan", "--yes").code == 2


def test_a_title_means_the_session_that_has_it_when_it_is_deleted(hermes):
    hermes.add("newer", "x", title="the plan #2")
    assert hermes("show", "the plan").out.startswith("newer")
    assert hermes("delete", "the plan", "--yes").out == "deleted 20260101_aaaa (the plan)\n"
    outcome = hermes("delete", "the plan", "--yes")
    assert (outcome.code, "with that title is newer" in outcome.err) == (2, True)


@pytest.fixture
def aged(hermes):
    """Sessions of 100 days: ended, open, archived, and ended of another source."""
    began = time.time() - 100 * DAY
    hermes.add("ended", "x", started_at=began, ended_at=began + 1)
    hermes.add("open", "x", started_at=began)
    hermes.add("kept", "x", started_at=began, ended_at=began + 1, archived_at=began + 2)
    hermes.add("job", "x", started_at=began, ended_at=began + 1, source="cron")
    return hermes


def test_pruning_takes_old_ended_sessions_and_keeps_archived_ones(aged):
    before = aged.ids()
    assert aged("prune", "--yes").out == "deleted 2 sessions\n"
    assert before - aged.ids() == {"ended", "job"}
    assert "nothing was deleted" in aged("prune", "--yes").out


def test_pruning_can_be_narrowed_and_tried_first(aged):
    before = aged.ids()
    preview = aged("prune", "--source", "cron", "--dry-run")
    assert preview.out.startswith("job ")
    assert preview.out.endswith("1 session would be deleted\n")
    assert aged("prune", "--dry-run", "--json").document == {"would_delete": ["job", "ended"]}
    assert aged.ids() == before
    assert aged("prune", "--source", "cron", "--yes", "--json").document == {"deleted": ["job"]}
    assert aged("prune", "--older-than", "5", "--yes").out == "deleted 2 sessions\n"
    assert aged.ids() == {"open", "kept", "20260102_bbbb"}


def test_pruning_asks_first(aged):
    before = aged.ids()
    outcome = aged("prune", typed="no\n")
    assert outcome.code == 1
    assert "Delete 2 sessions started more than 90d ago? [y/N]" in outcome.out
    assert aged("prune").code == 2
    assert aged.ids() == before


@pytest.mark.parametrize("age", ["-1", "soon", "1.5", "99999999999", ""])
def test_an_age_that_is_none_is_refused(aged, age):
    before = aged.ids()
    outcome = aged("prune", f"--older-than={age}", "--yes")
    assert (outcome.code, "--older-than" in outcome.err) == (2, True)
    assert aged.ids() == before

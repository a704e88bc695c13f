"""With `skills.review: ask` a change waits until the user says yes."""

import asyncio

import pytest

from hermes.core.errors import UsageError
from hermes.skills.writing.draft import ChangeRefused
from tests.unit.skills.writing.conftest import text


def drafted(proposal):
    names = ("content", "old_string", "new_string")
    return {name: getattr(proposal.draft, name) for name in names}


async def test_a_change_waits_and_is_kept_with_its_session_and_reason(asking):
    outcome = await asking.create("deploy", reason="often needed")
    assert asking.there() == []
    assert "waits for the user as proposal" in outcome.text
    (waiting,) = asking.writer.proposals.all()
    assert waiting == outcome.proposal
    assert "+++ b/deploy/SKILL.md" in waiting.diff
    assert "+name: deploy" in waiting.diff
    with pytest.raises(ChangeRefused, match="deploy waits for the user's approval"):
        await asking.do("patch", "deploy", old_string="a", new_string="b")
    done = await asking.writer.approve(waiting.id[:4])
    assert (done.commit.reason, done.commit.session, done.commit.who) == (
        "often needed", "s1", "agent",
    )  # fmt: skip
    assert asking.writer.proposals.all() == []
    assert asking.there() == ["deploy/SKILL.md"]


async def test_a_rejected_change_leaves_nothing(asking):
    outcome = await asking.create("deploy")
    await asking.writer.reject(outcome.proposal.id)
    assert asking.writer.proposals.all() == []
    assert asking.there() == []
    for act in (asking.writer.approve, asking.writer.reject):
        with pytest.raises(UsageError, match="there is no proposal"):
            await act(outcome.proposal.id)


async def test_the_same_again_is_the_same_proposal(asking):
    first = await asking.create("deploy", reason="one")
    second = await asking.create("deploy", reason="two")
    assert first.proposal.id == second.proposal.id
    assert len(asking.writer.proposals.all()) == 1


async def test_what_would_be_refused_is_not_even_proposed(asking):
    with pytest.raises(ChangeRefused, match="evil"):
        await asking.create("deploy", content=text("deploy", body="EVIL"))
    assert asking.writer.proposals.all() == []


async def test_only_what_was_shown_is_approved(asking):
    asking.put(asking.home, "deploy", text("deploy"))
    waiting = {
        "patch": await asking.do("patch", "deploy", old_string="Do it", new_string="Do more"),
        "edit": await asking.do("edit", "deploy", content=text("deploy", body="Anew")),
        "delete": await asking.do("delete", "deploy"),
    }
    changed = text("deploy") + "\nBy hand.\n"
    for action, outcome in waiting.items():
        asking.put(asking.home, "deploy", changed)
        proposal = outcome.proposal
        assert "By hand." not in proposal.diff
        with pytest.raises(ChangeRefused, match=f"changed since {proposal.id} was shown") as late:
            await asking.writer.approve(proposal.id)
        assert f"`hermes skills pending {proposal.id}`" in late.value.hint
        assert asking.read("deploy/SKILL.md") == changed
        again = await asking.do(action, "deploy", **drafted(proposal))
        assert again.proposal == proposal, "proposed again is not shown again"
        assert "By hand." in (await asking.writer.refreshed_proposal(proposal.id)).diff
        await asking.writer.approve(proposal.id)
        kept = asking.there() and asking.read("deploy/SKILL.md")
        assert kept != changed
        assert ("Do more" in kept and "By hand." in kept) is (action == "patch")
    assert asking.writer.proposals.all() == []


async def test_a_change_that_does_not_fit_any_more_goes_on_waiting(asking):
    asking.put(asking.home, "deploy", text("deploy"))
    patch = (await asking.do("patch", "deploy", old_string="Do it", new_string="More")).proposal
    asking.put(asking.home, "deploy", text("deploy", body="Anew"))
    for act in (asking.writer.approve, asking.writer.refreshed_proposal):
        with pytest.raises(ChangeRefused, match="old_string is not in it"):
            await act(patch.id)
    assert asking.writer.proposals.all() == [patch]


async def test_a_copy_of_a_bundled_skill_is_made_when_it_is_approved(asking):
    outcome = await asking.do("patch", "servers", old_string="Do it.", new_string="Do more.")
    assert "-2. Do it.\n+2. Do more." in outcome.proposal.diff
    assert asking.there() == []
    await asking.writer.approve(outcome.proposal.id)
    assert "devops/servers/SKILL.md" in asking.there()


async def test_approved_twice_at_once_it_is_done_once(asking):
    asking.put(asking.home, "deploy", text("deploy"))
    added = await asking.do("patch", "deploy", old_string="Do it", new_string="Do it again. Do it")
    both = (asking.writer.approve(added.proposal.id) for _ in range(2))
    results = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(each, UsageError) for each in results) == 1
    assert asking.read("deploy/SKILL.md").count("again") == 1


async def test_a_damaged_proposal_is_left_out(asking):
    await asking.create("deploy")
    (asking.home / ".pending/bad.json").write_text("{")
    assert len(asking.writer.proposals.all()) == 1

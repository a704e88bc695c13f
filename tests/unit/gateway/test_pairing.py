"""Codes: how they are made, kept, used and lost."""

import stat

import pytest

from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.gateway import pairing
from hermes.gateway.commands import pair_command
from hermes.sdk.platforms import SessionSource
from tests.unit.gateway.auth_setup import AuthSetup


@pytest.fixture
def setup(tmp_path):
    return AuthSetup(tmp_path)


def test_codes_have_eight_unambiguous_characters():
    made = {pairing.new_code() for _ in range(200)}
    assert len(made) == 200
    assert {len(code) for code in made} == {8}
    assert set("".join(made)) <= set(pairing.ALPHABET)
    assert len(pairing.ALPHABET) == 32
    assert not set("0O1I") & set(pairing.ALPHABET)


def test_a_hash_of_full_cost_matches_its_code_only():
    kept = pairing.hash_code("K7PXM2QA")
    assert "K7PXM2QA" not in repr(kept)
    assert pairing.code_matches("K7PXM2QA", kept)
    assert not pairing.code_matches("K7PXM2QB", kept)


@pytest.mark.parametrize("text", ["k7px-m2qa", " K7PX M2QA\n", "K7PXM2QA"])
def test_code_is_read_with_spaces_dashes_and_lower_case(text):
    assert pairing.normalize_code(text) == "K7PXM2QA"


@pytest.mark.parametrize(
    "text", ["", "K7PXM2Q", "K7PXM2QAA", "K7PXM2Q0", "\uff2b7PXM2QA", "A" * 99]
)
def test_text_that_cannot_be_a_code_is_rejected(text):
    assert pairing.normalize_code(text) == ""


def test_approval_is_seen_by_other_processes_and_can_be_revoked(setup):
    code = setup.store.request("telegram", "5", "Ann").code
    user, approved = setup.another_process().approve("telegram", code)
    assert (user, approved.user_name) == ("5", "Ann")
    assert setup.another_process().is_approved("telegram", "5")
    assert not setup.store.is_approved("discord", "5")
    assert setup.store.pending("telegram") == []
    assert setup.store.revoke("telegram", "5")
    assert not setup.another_process().is_approved("telegram", "5")
    assert not setup.store.revoke("telegram", "5")


def test_a_user_gets_one_code_in_ten_minutes(setup):
    first = setup.store.request("telegram", "5").code
    setup.clock.time += 599
    assert setup.store.request("telegram", "5").code == ""
    setup.clock.time += 1
    second = setup.store.request("telegram", "5").code
    assert second
    with pytest.raises(UsageError):
        setup.store.approve("telegram", first)
    setup.store.approve("telegram", second)


def test_twenty_may_wait_on_a_platform_and_old_requests_make_room(setup):
    assert setup.store.request("telegram", "first").code
    setup.clock.time += 300
    assert all(setup.store.request("telegram", str(user)).code for user in range(19))
    assert setup.store.request("telegram", "new").why == "too many wait for approval"
    assert setup.store.request("discord", "new").code
    setup.clock.time += 300
    assert setup.store.request("telegram", "new").code
    waiting = [each.user_id for each in setup.store.pending("telegram")]
    assert len(waiting) == 20
    assert "first" not in waiting
    assert setup.store.request("telegram", "another").why == "too many wait for approval"


def test_files_are_for_their_owner_alone(setup):
    code = setup.store.request("telegram", "5").code
    setup.store.approve("telegram", code)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in setup.folder.glob("*.json")}
    assert files == {
        "telegram-pending.json": 0o600,
        "telegram-approved.json": 0o600,
        "_rate_limits.json": 0o600,
    }
    assert stat.S_IMODE(setup.folder.stat().st_mode) == 0o700


def test_a_code_is_nowhere_on_the_disk(setup):
    code = setup.store.request("telegram", "5").code
    invitation = setup.store.invite("telegram")
    kept = "".join(path.read_text() for path in setup.folder.glob("*.json"))
    assert code not in kept
    assert invitation not in kept


def test_a_file_others_may_read_is_closed_again(setup):
    setup.store.request("telegram", "5")
    pending = setup.folder / "telegram-pending.json"
    pending.chmod(0o644)
    assert [each.user_id for each in setup.store.pending("telegram")] == ["5"]
    assert stat.S_IMODE(pending.stat().st_mode) == 0o600


def test_wrong_codes_are_counted_aloud_and_lock_the_platform(setup):
    code = setup.store.request("telegram", "5").code
    hints = []
    for _ in range(5):
        with pytest.raises(UsageError) as wrong:
            setup.store.approve("telegram", "22222222")
        hints.append(wrong.value.hint)
    assert hints[0].startswith("4 more wrong codes")
    assert hints[-1] == "too many wrong codes: telegram is locked for an hour"
    with pytest.raises(HermesError, match="too many wrong codes") as locked:
        setup.another_process().approve("telegram", code)
    assert locked.value.hint.endswith("60 min")


def test_a_right_code_forgets_the_wrong_ones(setup):
    for _ in range(2):
        for _ in range(4):
            with pytest.raises(UsageError):
                setup.store.approve("telegram", "22222222")
        setup.store.approve("telegram", setup.store.request("telegram", "5").code)
        setup.clock.time += 600


def test_text_that_is_not_a_code_is_not_counted(setup):
    for _ in range(9):
        with pytest.raises(UsageError, match="is not a pairing code"):
            setup.store.approve("telegram", "hello")
    assert setup.store.request("telegram", "5").code


def test_pending_codes_can_be_cleared(setup):
    code = setup.store.request("telegram", "5").code
    setup.store.invite("telegram")
    assert setup.store.clear_pending("telegram") == 2
    assert setup.store.clear_pending("telegram") == 0
    with pytest.raises(UsageError):
        setup.store.approve("telegram", code)


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "Telegram", "_rate_limits", "a\x00", "", "a-pending"]
)
def test_platform_name_that_is_a_path_is_refused(setup, name):
    for call in (setup.store.request, setup.store.approve):
        with pytest.raises(UsageError, match="is not the name of a platform"):
            call(name, "22222222")


def test_held_lock_is_reported_after_the_timeout(setup, monkeypatch):
    monkeypatch.setattr("hermes.gateway.pairing.LOCK_SECONDS", 0.01)
    with (
        setup.store._files.locked(),
        pytest.raises(ConfigError, match="another process is changing"),
    ):
        setup.another_process().request("telegram", "5")


def test_pair_in_a_chat_invites_lists_and_approves(setup):
    owner = SessionSource("telegram", "1", user_id="1")
    invitation = pair_command(setup.store, owner, "").split()[0]
    assert setup.store.redeem("telegram", invitation, "8")
    code = setup.store.request("telegram", "5", "An\x1b[31mn").code
    assert pair_command(setup.store, owner, "list") == "Pending on telegram: Ann (5)."
    assert pair_command(setup.store, owner, code) == "Ann (5) can now write to me on telegram."
    other = setup.store.request("discord", "6").code
    assert "on discord." in pair_command(setup.store, owner, f"discord {other}")
    assert "no request on telegram has this code" in pair_command(setup.store, owner, "22222222")
    assert "/pair CODE" in pair_command(setup.store, owner, "one two three")


def test_pair_command_is_refused_in_groups(setup):
    group = SessionSource("telegram", "-1", "group", user_id="1")
    assert "private chat" in pair_command(setup.store, group, "")
    assert not setup.store.invitations("telegram")

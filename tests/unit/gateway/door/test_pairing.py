"""Codes: how they are made, kept, used and lost."""

import stat
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.gateway import pairing
from hermes.gateway.commands import pair_command
from hermes.gateway.platforms.kit.contract import SessionSource
from tests.unit.gateway.door.parts import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_codes_have_eight_characters_that_nobody_mixes_up() -> None:
    made = {pairing.new_code() for _ in range(200)}
    assert len(made) == 200
    assert {len(code) for code in made} == {8}
    assert set("".join(made)) <= set(pairing.ALPHABET)
    assert len(pairing.ALPHABET) == 32
    assert not set("0O1I") & set(pairing.ALPHABET)


def test_a_hash_of_full_cost_matches_its_code_only() -> None:
    kept = pairing.hashed("K7PXM2QA")
    assert "K7PXM2QA" not in repr(kept)
    assert pairing.matches("K7PXM2QA", kept)
    assert not pairing.matches("K7PXM2QB", kept)


@pytest.mark.parametrize("text", ["k7px-m2qa", " K7PX M2QA\n", "K7PXM2QA"])
def test_a_code_may_be_typed_in_many_ways(text: str) -> None:
    assert pairing.typed(text) == "K7PXM2QA"


@pytest.mark.parametrize(
    "text", ["", "K7PXM2Q", "K7PXM2QAA", "K7PXM2Q0", "\uff2b7PXM2QA", "A" * 99]
)
def test_what_cannot_be_a_code_is_none(text: str) -> None:
    assert pairing.typed(text) == ""


def test_an_approved_user_stays_so_in_other_processes_and_is_shut_out_again(scene: Scene) -> None:
    code = scene.store.request("telegram", "5", "Ann").code
    user, approved = scene.another_process().approve("telegram", code)
    assert (user, approved.user_name) == ("5", "Ann")
    assert scene.another_process().is_approved("telegram", "5")
    assert not scene.store.is_approved("discord", "5")
    assert scene.store.pending("telegram") == []
    assert scene.store.revoke("telegram", "5")
    assert not scene.another_process().is_approved("telegram", "5")
    assert not scene.store.revoke("telegram", "5")


def test_a_user_gets_one_code_in_ten_minutes(scene: Scene) -> None:
    first = scene.store.request("telegram", "5").code
    scene.clock.at += 599
    assert scene.store.request("telegram", "5").code == ""
    scene.clock.at += 1
    second = scene.store.request("telegram", "5").code
    assert second
    with pytest.raises(UsageError):
        scene.store.approve("telegram", first)
    scene.store.approve("telegram", second)


def test_three_may_wait_on_a_platform(scene: Scene) -> None:
    assert all(scene.store.request("telegram", user).code for user in "123")
    assert scene.store.request("telegram", "4").why == "too many wait for approval"
    assert scene.store.request("discord", "4").code
    scene.clock.at += 3600
    assert scene.store.request("telegram", "4").code


def test_files_are_for_their_owner_alone(scene: Scene) -> None:
    code = scene.store.request("telegram", "5").code
    scene.store.approve("telegram", code)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in scene.folder.glob("*.json")}
    assert files == {
        "telegram-pending.json": 0o600,
        "telegram-approved.json": 0o600,
        "_rate_limits.json": 0o600,
    }
    assert stat.S_IMODE(scene.folder.stat().st_mode) == 0o700


def test_a_code_is_nowhere_on_the_disk(scene: Scene) -> None:
    code = scene.store.request("telegram", "5").code
    invitation = scene.store.invite("telegram")
    kept = "".join(path.read_text() for path in scene.folder.glob("*.json"))
    assert code not in kept
    assert invitation not in kept


def test_a_file_others_may_read_is_closed_again(scene: Scene) -> None:
    scene.store.request("telegram", "5")
    pending = scene.folder / "telegram-pending.json"
    pending.chmod(0o644)
    assert [each.user_id for each in scene.store.pending("telegram")] == ["5"]
    assert stat.S_IMODE(pending.stat().st_mode) == 0o600


def test_wrong_codes_are_counted_aloud_and_lock_the_platform(scene: Scene) -> None:
    code = scene.store.request("telegram", "5").code
    hints = []
    for _ in range(5):
        with pytest.raises(UsageError) as wrong:
            scene.store.approve("telegram", "22222222")
        hints.append(wrong.value.hint)
    assert hints[0].startswith("4 more wrong codes")
    assert hints[-1] == "too many wrong codes: telegram is locked for an hour"
    with pytest.raises(HermesError, match="too many wrong codes") as locked:
        scene.another_process().approve("telegram", code)
    assert locked.value.hint.endswith("60 min")


def test_a_right_code_forgets_the_wrong_ones(scene: Scene) -> None:
    for _ in range(2):
        for _ in range(4):
            with pytest.raises(UsageError):
                scene.store.approve("telegram", "22222222")
        scene.store.approve("telegram", scene.store.request("telegram", "5").code)
        scene.clock.at += 600


def test_what_is_no_code_is_not_held_against_anybody(scene: Scene) -> None:
    for _ in range(9):
        with pytest.raises(UsageError, match="is not a pairing code"):
            scene.store.approve("telegram", "hello")
    assert scene.store.request("telegram", "5").code


def test_waiting_codes_can_be_thrown_away(scene: Scene) -> None:
    code = scene.store.request("telegram", "5").code
    scene.store.invite("telegram")
    assert scene.store.clear_pending("telegram") == 2
    assert scene.store.clear_pending("telegram") == 0
    with pytest.raises(UsageError):
        scene.store.approve("telegram", code)


@pytest.mark.parametrize("name", ["../x", "Telegram", "_rate_limits", "a/b", "", "a-pending"])
def test_a_platform_is_no_path(scene: Scene, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a platform"):
        scene.store.request(name, "5")


def test_the_lock_is_waited_for_and_its_lack_is_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.gateway.pairing.LOCK_SECONDS", 0.01)
    with (
        scene.store._files.locked(),
        pytest.raises(ConfigError, match="another process holds"),
    ):
        scene.another_process().request("telegram", "5")


def test_pair_in_a_chat_invites_lists_and_approves(scene: Scene) -> None:
    owner = SessionSource("telegram", "1", user_id="1")
    invitation = pair_command(scene.store, owner, "").split()[0]
    assert scene.store.redeem("telegram", invitation, "8")
    code = scene.store.request("telegram", "5", "An\x1b[31mn").code
    assert pair_command(scene.store, owner, "list") == "Pending on telegram: Ann (5)."
    assert pair_command(scene.store, owner, code) == "Ann (5) can now write to me on telegram."
    other = scene.store.request("discord", "6").code
    assert "on discord." in pair_command(scene.store, owner, f"discord {other}")
    assert "no request on telegram has this code" in pair_command(scene.store, owner, "22222222")
    assert "/pair CODE" in pair_command(scene.store, owner, "one two three")


def test_pair_is_not_done_where_others_read(scene: Scene) -> None:
    group = SessionSource("telegram", "-1", "group", user_id="1")
    assert "private chat" in pair_command(scene.store, group, "")
    assert not scene.store.invitations("telegram")

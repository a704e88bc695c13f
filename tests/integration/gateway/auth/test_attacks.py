"""Attacks on the authorization. None of them succeeds; the ids of the cases say what was tried.

Here:
Codes          guessing, over processes and lockouts; replay of used, expired, revoked and replaced
               codes; codes of other platforms; races; clocks set back; hashes used as codes
Invitations    guessing, replay, groups, other platforms, other programs
Files          damaged, symbolic links, pipes, open permissions, far too large, forged hashes

In test_impostors.py:
User ids       names, chats, threads, texts and forwards that say an allowed id; look-alikes
Lists          empty entries, wildcards, patterns, switches that are no clear yes
Sessions       ids that hold the parts of another key
Roles          commands written so that they look like others; ids that stand for everybody

Forged webhooks and API calls are attacked in the tests of those platforms.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.gateway.pairing import PairingStore
from tests.unit.gateway.auth_setup import CHEAP, AuthSetup, HandClock, code_in

WRONG = "22222222"


@pytest.fixture
def setup(tmp_path):
    return AuthSetup(tmp_path)


def refused(store: PairingStore, code: str, platform: str = "telegram") -> str:
    """Why a code is refused; fails when it is not."""
    with pytest.raises(HermesError) as no:
        store.approve(platform, code)
    return str(no.value)


def lock(setup: AuthSetup, platform: str = "telegram") -> None:
    for _ in range(5):
        refused(setup.store, WRONG, platform)


# --- codes ---------------------------------------------------------------------------------------


STEPS: dict[str, Callable[[AuthSetup, str], object]] = {
    "lock": lambda setup, _code: lock(setup),
    "guess": lambda setup, _code: refused(setup.store, WRONG),
    "guess elsewhere": lambda setup, _code: refused(setup.another_process(), WRONG),
    "locked": lambda setup, code: refused(setup.store, code).index("too many wrong codes"),
    "restart": lambda setup, _code: setattr(setup, "store", setup.another_process()),
    "use": lambda setup, code: setup.store.approve("telegram", code),
    "revoke": lambda setup, _code: setup.store.revoke("telegram", "5"),
    "clear": lambda setup, _code: setup.store.clear_pending("telegram"),
    "ask again": lambda setup, _code: setup.store.request("telegram", "5"),
}
ATTACKS: dict[str, list[str | int]] = {
    "brute force": ["lock"],
    "brute force, then a restart": ["lock", "restart"],
    "brute force by a process for each guess": ["guess elsewhere"] * 5,
    "guessing while locked out": ["lock", 3599, *["locked"] * 20],
    "lockout outlived by setting the clock back": ["lock", -30, "locked"],
    "waiting out the lockout": ["lock", 3601],  # by then the code has run out as well
    "expired code": [3600],
    "expired code and the clock set back": [3600, "guess", -3000],
    "clock set back before the code was made": [-86_400],
    "replay of a used code": ["use"],
    "replay after the user was shut out": ["use", "revoke"],
    "replay of a code that was thrown away": ["clear"],
    "replay of a code after asking again": [600, "ask again"],
    "code of a user who was shut out while waiting": ["revoke"],
}
"""What happens before the code is tried; numbers are seconds that pass."""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_code_is_refused_after_the_attack(setup, attack):
    code = setup.store.request("telegram", "5").code
    for step in attack:
        if isinstance(step, int):
            setup.clock.time += step
        else:
            STEPS[step](setup, code)
    before = setup.store.approved("telegram")
    refused(setup.store, code)
    assert setup.store.approved("telegram") == before


def kept_hash(setup: AuthSetup) -> dict[str, Any]:
    pending = msgspec.json.decode((setup.folder / "telegram-pending.json").read_bytes())
    return pending[0]["code"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "guess",
    [
        pytest.param(lambda setup: kept_hash(setup)["digest"], id="the_hash_itself"),
        pytest.param(lambda setup: kept_hash(setup)["digest"][:8], id="the_start_of_the_hash"),
        pytest.param(lambda setup: kept_hash(setup)["salt"], id="the_salt"),
        pytest.param(lambda _: "", id="nothing"),
        pytest.param(lambda _: "*", id="a_wildcard"),
        pytest.param(lambda _: "A" * 1_000_000, id="a_million_letters"),
        pytest.param(lambda _: "' OR 1=1 --", id="sql"),
        pytest.param(lambda _: "\x00" * 8, id="nul_characters"),
    ],
)
def test_invalid_codes_are_refused(setup, guess):
    setup.store.request("telegram", "5")
    refused(setup.store, guess(setup))
    assert setup.store.approved("telegram") == {}


def test_full_width_letters_of_a_right_code_are_another_code(setup):
    code = setup.store.request("telegram", "5").code
    refused(setup.store, "".join(chr(ord(letter) + 0xFEE0) for letter in code))


@pytest.mark.parametrize("platform", ["../telegram", "/etc/passwd", "telegram-approved.json\x00"])
def test_platform_that_is_a_path_is_refused(setup, platform):
    with pytest.raises(UsageError):
        setup.store.approve(platform, WRONG)


def test_a_code_of_another_platform_is_wrong(setup):
    code = setup.store.request("discord", "5").code
    refused(setup.store, code, "telegram")
    assert not setup.store.is_approved("telegram", "5")


def test_lockout_of_one_platform_does_not_lift_that_of_another(setup):
    lock(setup)
    lock(setup, "discord")
    assert "too many" in refused(setup.store, WRONG, "telegram")


def test_in_the_life_of_a_code_five_guesses_are_possible(setup):
    setup.store.request("telegram", "5")
    tried = 0
    while setup.store.pending("telegram"):
        if "no request" in refused(setup.store, WRONG):
            tried += 1
        setup.clock.time += 30
    assert tried == 5


def test_two_approvals_that_race_let_in_once(setup):
    code = setup.store.request("telegram", "5").code
    start, outcomes = threading.Barrier(6), list[str]()

    def approve() -> None:
        store = setup.another_process()
        start.wait()
        try:
            outcomes.append(store.approve("telegram", code)[0])
        except UsageError:
            outcomes.append("refused")

    threads = [threading.Thread(target=approve) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["5", *["refused"] * 5]


GUESS = """
import sys
from collections.abc import Callable
from pathlib import Path
from hermes.core.errors import UsageError, HermesError
from hermes.gateway.pairing import PairingStore
from hermes.util.concurrency import SystemClock
store, tried = PairingStore(Path(sys.argv[1]), SystemClock(), cost=2), 0
for _ in range(5):
    try:
        store.approve("telegram", "22222222")
    except UsageError:
        tried += 1
    except HermesError:
        pass
print(tried)
"""


def test_processes_that_guess_at_once_share_the_five_guesses(setup):
    command = [sys.executable, "-c", GUESS, str(setup.folder)]
    guessing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sum(int(each.communicate()[0]) for each in guessing) == 5


@pytest.mark.parametrize(("users", "codes"), [(["5"] * 30, 1), (map(str, range(30)), 20)])
async def test_number_of_codes_is_limited(setup, users, codes):
    replies = [(await setup.says(user)).reply for user in users]
    assert len([reply for reply in replies if reply]) == codes


@pytest.mark.parametrize(
    "text",
    ["{code}", "hermes pairing approve telegram {code}", "/pair {code}", "/approve {code}"],
    ids=["the_code", "the_command", "slash_pair", "slash_approve"],
)
async def test_a_stranger_cannot_approve_the_own_code(setup, text):
    code = code_in((await setup.says("5")).reply)
    setup.store.invite("telegram")
    assert not (await setup.says("5", text.format(code=code))).allowed
    assert not (await setup.says("5")).allowed
    assert setup.store.approved("telegram") == {}


def test_small_clock_difference_between_processes_is_tolerated(tmp_path):
    ahead, behind = HandClock(1030.0), HandClock(1000.0)
    code = PairingStore(tmp_path / "p", ahead, cost=CHEAP).request("telegram", "5").code
    assert PairingStore(tmp_path / "p", behind, cost=CHEAP).approve("telegram", code)[0] == "5"


# --- invitations ---------------------------------------------------------------------------------


async def test_strangers_cannot_withdraw_an_invitation(setup):
    code = setup.store.invite("telegram")
    for number in range(20):
        assert not (await setup.says(str(number % 4), WRONG)).allowed
    await setup.says("9", code)
    assert (await setup.says("9")).allowed


async def test_who_guesses_five_times_is_not_heard_any_more(setup):
    code = setup.store.invite("telegram")
    for _ in range(5):
        await setup.says("5", WRONG)
    await setup.says("5", code)
    assert not (await setup.says("5")).allowed
    assert setup.store.invitations("telegram")


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"chat_type": "group"}, id="in_a_group"),
        pytest.param({"platform": "discord"}, id="on_another_platform"),
        pytest.param({"is_bot": True}, id="by_a_program"),
        pytest.param({"user": ""}, id="by_nobody"),
        pytest.param({"late": 3600}, id="too_late"),
        pytest.param({"text": "my code is {code}, let me in"}, id="within_a_text"),
    ],
)
async def test_an_invitation_is_not_taken(setup, facts):
    code = setup.store.invite("telegram")
    setup.clock.time += facts.pop("late", 0)
    text = facts.pop("text", "{code}").format(code=code)
    assert not (await setup.says(facts.pop("user", "5"), text, **facts)).allowed
    assert setup.store.approved("telegram") == setup.store.approved("discord") == {}


async def test_an_invitation_is_not_taken_during_a_lockout(setup):
    code = setup.store.invite("telegram")
    lock(setup)
    await setup.says("5", code)
    assert setup.store.approved("telegram") == {}


# --- files ---------------------------------------------------------------------------------------


def far_too_large(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(5_000_000)


TAMPERING: dict[str, Callable[[Path], object]] = {
    "symbolic link": lambda path: path.symlink_to(path.rename(path.parents[1] / "elsewhere.json")),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "directory": lambda path: (path.unlink(), path.mkdir()),
    "writable by others": lambda path: path.chmod(0o606),
    "writable by the group": lambda path: path.chmod(0o660),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "another shape": lambda path: path.write_text('["5", "6"]'),
    "far too large": far_too_large,
    "open folder": lambda path: path.parent.chmod(0o777),
    "linked folder": lambda path: path.parent.symlink_to(
        path.parent.rename(path.parent.with_name("elsewhere"))
    ),
}


@pytest.mark.parametrize("name", ["telegram-approved.json", "telegram-pending.json"])
@pytest.mark.parametrize("how", TAMPERING)
async def test_untrusted_file_admits_no_user(setup, how, name):
    setup.store.approve("telegram", setup.store.request("telegram", "5").code)
    code = setup.store.request("telegram", "6").code
    path = setup.folder / name
    TAMPERING[how](path)
    before = path.lstat()
    with pytest.raises(ConfigError) as no:
        setup.store.approve("telegram", code)
    assert no.value.hint
    assert not (await setup.says("6")).allowed
    if "approved" in name or "folder" in how:
        assert not (await setup.says("5")).allowed
    after = path.lstat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size), "it is left as it is"


def test_damaged_rate_limits_stop_approvals(setup):
    code = setup.store.request("telegram", "5").code
    (setup.folder / "_rate_limits.json").write_text("{}garbage")
    with pytest.raises(ConfigError, match="damaged"):
        setup.store.approve("telegram", code)


@pytest.mark.parametrize(
    "forged",
    [
        {"salt": "", "digest": "", "cost": CHEAP},
        {"salt": "x", "digest": "", "cost": 0},
        {"salt": "x", "digest": "x", "cost": 2**60},
        {"salt": "x", "digest": "\u212a", "cost": -1},
    ],
    ids=["empty", "free", "endless", "not_a_hash"],
)
def test_a_forged_hash_matches_nothing(setup, forged):
    setup.store.request("telegram", "5")
    path = setup.folder / "telegram-pending.json"
    pending = msgspec.json.decode(path.read_bytes())
    pending[0]["code"] = forged
    path.write_bytes(msgspec.json.encode(pending))
    refused(setup.store, WRONG)


def test_temporary_file_of_a_crash_is_ignored(setup):
    setup.store.request("telegram", "5")
    left = setup.folder / ".telegram-approved.json.abc.tmp"
    left.write_text('{"5": {}}')
    assert setup.store.approved("telegram") == {}

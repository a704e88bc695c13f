"""`hermes pairing` as a user sees it."""

import json
from pathlib import Path

import pytest

from hermes.gateway.pairing import PairingStore
from hermes.util.concurrency import SystemClock
from tests.unit.cli.terminal import Hermes


@pytest.fixture
def hermes(hermes_home: Path) -> Hermes:
    return Hermes("pairing", hermes_home)


@pytest.fixture
def store(hermes_home: Path) -> PairingStore:
    return PairingStore(hermes_home / "pairing", SystemClock(), cost=2)


def test_list_is_empty_at_first(hermes: Hermes) -> None:
    assert hermes("list").out == "no user is approved by a code, and none waits\n"
    assert json.loads(hermes("list", "--json").out) == []


def test_a_stranger_is_let_in_and_shut_out_again(hermes: Hermes, store: PairingStore) -> None:
    code = store.request("discord", "5", "Ann\x1b[31m").code
    assert hermes("list").out.startswith("discord  pending  5 (Ann), ")
    done = hermes("approve", "Discord", code.lower())
    assert (done.code, done.out) == (0, "5 (Ann) may talk to the agent on discord now\n")
    assert store.is_approved("discord", "5")
    shown = json.loads(hermes("list", "discord", "--json").out)
    assert [(row["user_id"], row["state"]) for row in shown] == [("5", "approved")]
    assert hermes("revoke", "discord", "5").out == "5 is shut out of discord\n"
    assert not store.is_approved("discord", "5")
    hermes("revoke", "discord", "5").expect(2, err="was not approved by a code")


def test_a_wrong_code_is_refused_and_counted(hermes: Hermes) -> None:
    hermes("approve", "discord", "22222222").expect(
        2, err=["no request on discord has this code", "4 more wrong codes"]
    )


def test_a_code_never_shows_in_a_list(hermes: Hermes, store: PairingStore) -> None:
    code = store.request("discord", "5").code
    assert code not in hermes("list").out + hermes("list", "--json").out


def test_invitation_is_a_code_for_the_first_user_who_sends_it(hermes, store):
    code = json.loads(hermes("invite", "discord", "--json").out)["code"]
    shown = hermes("list").out
    assert shown.startswith("discord  invited  the first who sends the code, for another 59m")
    (row,) = json.loads(hermes("list", "--json").out)
    assert (row["state"], row["user_id"], row["until"] - row["at"]) == ("invited", "", 3600)
    assert code not in f"{shown} {row}"
    assert store.redeem("discord", code, "5")
    assert "invited" not in hermes("list").out


def test_codes_that_wait_are_thrown_away(hermes: Hermes, store: PairingStore) -> None:
    store.request("discord", "5")
    store.request("telegram", "6")
    assert hermes("clear-pending", "discord").out == "threw away 1 code\n"
    assert hermes("clear-pending").out == "threw away 1 code\n"
    assert json.loads(hermes("clear-pending", "--json").out) == {"cleared": 0}


def test_unknown_platform_is_refused(hermes: Hermes) -> None:
    hermes("approve", "dicsord", "22222222").expect(
        2, err=["there is no platform 'dicsord'", "discord"]
    )


def test_damaged_file_is_reported_and_unchanged(hermes, store, hermes_home):
    store.request("discord", "5")
    damaged = hermes_home / "pairing" / "discord-approved.json"
    damaged.write_text("{")
    hermes("list").expect(3, err="is damaged")
    assert damaged.read_text() == "{"

"""What is configured, and what survives a restart."""

from pathlib import Path

import pytest

from hermes.config.settings.platforms import MatrixSettings, Platform
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    CredentialsRefused,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.matrix.client import (
    Options,
    Refusal,
    of_connecting,
    of_sending,
    options_from,
)
from hermes.gateway.platforms.matrix.encryption import WrongKey, decoded
from hermes.gateway.platforms.matrix.manifest import MANIFEST
from hermes.gateway.platforms.matrix.sync import Bookmark, Invite, Sealed

ME = "@hermes:example.org"


def options(tmp_path: Path, **variables: str) -> Options:
    given = {f"MATRIX_{name}": value for name, value in variables.items()}
    return options_from(
        AdapterContext(MANIFEST, given.get, MatrixSettings(), Platform(), *[tmp_path] * 3)
    )


def test_a_homeserver_may_be_given_by_name(tmp_path: Path) -> None:
    found = options(tmp_path, HOMESERVER="example.org/", ACCESS_TOKEN="t")
    assert (found.homeserver, found.encryption, found.reactions) == (
        "https://example.org",
        False,
        True,
    )


def test_switches_are_read_as_people_write_them(tmp_path: Path) -> None:
    found = options(
        tmp_path, HOMESERVER="http://h", ACCESS_TOKEN="t", ENCRYPTION="True", REACTIONS="off"
    )
    assert (found.encryption, found.reactions) == (True, False)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"HOMESERVER": "https://example.org"},
        {"ACCESS_TOKEN": "t"},
        {"HOMESERVER": "https://example.org", "USER_ID": ME},
        {"HOMESERVER": "https://example.org", "PASSWORD": "p"},
        {"HOMESERVER": "ftp://example.org", "ACCESS_TOKEN": "t"},
        {"HOMESERVER": "https://", "ACCESS_TOKEN": "t"},
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, variables: dict[str, str]) -> None:
    with pytest.raises(CredentialsRefused) as error:
        options(tmp_path, **variables)
    assert error.value.hint


async def test_a_bookmark_is_there_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "sync.json"
    mark, sealed = Bookmark(file, ME), Sealed("!r", {"event_id": "$1"})
    mark.move("s1")
    mark.took("$2")
    mark.talk_in("$root")
    mark.invited("!new", Invite("@ann:example.org", direct=True))
    mark.set_aside(sealed)
    await mark.keep()
    again = Bookmark(file, ME)
    assert (again.since, again.sealed) == ("s1", (sealed,))
    assert again.talks_in("$root")
    assert again.has_taken("$2")
    assert again.invites == {"!new": Invite("@ann:example.org", direct=True)}
    assert file.stat().st_mode & 0o777 == 0o600
    again.move("s2")
    assert not again.has_taken("$2")


async def test_the_bookmark_of_another_account_does_not_count(tmp_path: Path) -> None:
    mark = Bookmark(tmp_path / "sync.json", ME)
    mark.move("s1")
    await mark.keep()
    assert Bookmark(tmp_path / "sync.json", "@other:example.org").since == ""


def test_a_broken_bookmark_is_told_and_starts_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sync.json").write_text('{"since": 7}')
    assert Bookmark(tmp_path / "sync.json", ME).since == ""
    assert "not known any more" in caplog.text


@pytest.mark.parametrize(
    ("status", "code", "meaning"),
    [
        (429, "M_LIMIT_EXCEEDED", SendLater),
        (401, "M_UNKNOWN_TOKEN", SendLater),
        (403, "M_FORBIDDEN", SendRefused),
        (404, "M_NOT_FOUND", SendRefused),
        (413, "M_TOO_LARGE", SendRefused),
        (400, "M_BAD_JSON", SendRefused),
        (500, "M_UNKNOWN", SendUnsure),
        (502, "", SendUnsure),
    ],
)
def test_what_a_refused_message_means(status: int, code: str, meaning: type) -> None:
    assert type(of_sending(Refusal(status, code, "said", 0.05))) is meaning


def test_the_homeserver_says_how_long_to_wait() -> None:
    error = of_sending(Refusal(429, "M_LIMIT_EXCEEDED", "", 7.5))
    assert isinstance(error, SendLater)
    assert error.seconds == 7.5


def test_a_refused_login_is_a_matter_of_credentials() -> None:
    assert isinstance(of_connecting(Refusal(401, "M_UNKNOWN_TOKEN", "")), CredentialsRefused)


def test_a_recovery_key_is_read_as_it_is_written() -> None:
    key = "EsTc LW2K PGiF wKEA 3As5 g5c4 BXwk qeeJ ZJV8 Q9fu gUMN UE4d"
    well_known = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
    assert decoded(key).hex() == well_known


@pytest.mark.parametrize("key", ["", "abcd efgh", "0OIl", "E" * 48, "z" * 60])
def test_what_is_no_recovery_key(key: str) -> None:
    with pytest.raises(WrongKey):
        decoded(key)

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
    MatrixError,
    MatrixOptions,
    map_connect_error,
    map_error,
    read_options,
)
from hermes.gateway.platforms.matrix.encryption import WrongRecoveryKey, decode_recovery_key
from hermes.gateway.platforms.matrix.manifest import MANIFEST
from hermes.gateway.platforms.matrix.sync import RoomInvite, SyncPosition, UndecryptedEvent

ME = "@hermes:example.org"


def options(tmp_path: Path, **variables: str) -> MatrixOptions:
    given = {f"MATRIX_{name}": value for name, value in variables.items()}
    return read_options(
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
    mark, sealed = SyncPosition(file, ME), UndecryptedEvent("!r", {"event_id": "$1"})
    mark.advance("s1")
    mark.mark_handled("$2")
    mark.add_thread("$root")
    mark.add_invite("!new", RoomInvite("@ann:example.org", direct=True))
    mark.add_undecrypted(sealed)
    await mark.save()
    again = SyncPosition(file, ME)
    assert (again.since, again.sealed) == ("s1", (sealed,))
    assert again.has_thread("$root")
    assert again.is_handled("$2")
    assert again.invites == {"!new": RoomInvite("@ann:example.org", direct=True)}
    assert file.stat().st_mode & 0o777 == 0o600
    again.advance("s2")
    assert not again.is_handled("$2")


async def test_the_bookmark_of_another_account_does_not_count(tmp_path: Path) -> None:
    mark = SyncPosition(tmp_path / "sync.json", ME)
    mark.advance("s1")
    await mark.save()
    assert SyncPosition(tmp_path / "sync.json", "@other:example.org").since == ""


def test_a_broken_bookmark_is_told_and_starts_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sync.json").write_text('{"since": 7}')
    assert SyncPosition(tmp_path / "sync.json", ME).since == ""
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
    assert type(map_error(MatrixError(status, code, "said", 0.05))) is meaning


def test_the_homeserver_says_how_long_to_wait() -> None:
    error = map_error(MatrixError(429, "M_LIMIT_EXCEEDED", "", 7.5))
    assert isinstance(error, SendLater)
    assert error.seconds == 7.5


def test_a_refused_login_is_a_matter_of_credentials() -> None:
    assert isinstance(
        map_connect_error(MatrixError(401, "M_UNKNOWN_TOKEN", "")), CredentialsRefused
    )


def test_a_recovery_key_is_read_as_it_is_written() -> None:
    key = "EsTc LW2K PGiF wKEA 3As5 g5c4 BXwk qeeJ ZJV8 Q9fu gUMN UE4d"
    well_known = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
    assert decode_recovery_key(key).hex() == well_known


@pytest.mark.parametrize("key", ["", "abcd efgh", "0OIl", "E" * 48, "z" * 60])
def test_what_is_no_recovery_key(key: str) -> None:
    with pytest.raises(WrongRecoveryKey):
        decode_recovery_key(key)

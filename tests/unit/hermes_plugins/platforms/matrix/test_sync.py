"""The sync position, timeline gaps and upgraded rooms."""

from pathlib import Path
from typing import Any

import pytest

from hermes.config.settings.platforms import Platform
from hermes.sdk.platforms import (
    AdapterContext,
    CredentialsRefused,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.util.concurrency import SystemClock
from hermes_plugins.platforms.matrix.client import (
    MatrixError,
    MatrixOptions,
    MatrixRooms,
    RoomInvite,
    SyncPosition,
    UndecryptedEvent,
    map_connect_error,
    map_error,
    read_options,
)
from hermes_plugins.platforms.matrix.encryption import WrongRecoveryKey, decode_recovery_key
from hermes_plugins.platforms.matrix.inbound import InviteHandler, RoomUpgrades
from hermes_plugins.platforms.matrix.manifest import MANIFEST, MatrixSettings

ME = "@hermes:example.org"


def options(tmp_path: Path, **variables: str) -> MatrixOptions:
    given = {f"MATRIX_{name}": value for name, value in variables.items()}
    return read_options(
        AdapterContext(MANIFEST, given.get, MatrixSettings(), Platform(), *[tmp_path] * 3)
    )


def test_a_homeserver_may_be_given_by_name(tmp_path: Path) -> None:
    found = options(tmp_path, HOMESERVER="example.org/", ACCESS_TOKEN="t")
    assert found.homeserver == "https://example.org"
    assert found.encryption is False
    assert found.reactions is True


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
def test_missing_credentials_are_refused_with_a_hint(tmp_path, variables):
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


def test_damaged_sync_position_is_logged_and_reset(tmp_path, caplog):
    (tmp_path / "sync.json").write_text('{"since": 7}')
    assert SyncPosition(tmp_path / "sync.json", ME).since == ""
    assert "is lost" in caplog.text


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
def test_response_maps_to_the_send_error(status: int, code: str, meaning: type) -> None:
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
def test_invalid_recovery_key_is_refused(key: str) -> None:
    with pytest.raises(WrongRecoveryKey):
        decode_recovery_key(key)


ME_MOVES, ANN = "@hermes:home.org", "@ann:away.org"
OLD, NEW, NEWER = "!old:away.org", "!new:away.org", "!newer:away.org"
Json = dict[str, Any]


class Gateway:
    """What one process knows; the file stays."""

    def __init__(self, file: Path) -> None:
        self.rooms, self.position = MatrixRooms(ME_MOVES), SyncPosition(file, ME_MOVES)
        invites = InviteHandler(None, self.position, self.rooms, ME_MOVES, SystemClock())
        self.moves = RoomUpgrades(self.position, self.rooms, invites)

    def hears(self, rooms: dict[str, list[Json]]) -> None:
        joined = {room: {"state": {"events": events}} for room, events in rooms.items()}
        sync = {"rooms": {"join": joined}}
        self.rooms.update(sync)
        self.moves.update(sync)

    def enters(self, room: str, *events: Json) -> None:
        self.position.remove_invite(room)
        self.hears({room: list(events)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sync.json"


def ends(new: str, by: str = ANN) -> Json:
    content = {"body": "moved", "replacement_room": new}
    return {"type": "m.room.tombstone", "state_key": "", "sender": by, "content": content}


def replaces(old: str) -> Json:
    content = {"predecessor": {"room_id": old, "event_id": "$last"}}
    return {"type": "m.room.create", "state_key": "", "sender": ANN, "content": content}


def named(name: str) -> Json:
    return {"type": "m.room.name", "state_key": "", "content": {"name": name}}


def test_a_room_that_was_replaced_is_followed_as_an_invitation_is(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [named("garden"), ends(NEW)]})
    assert gateway.position.invites == {NEW: RoomInvite(ANN, direct=False, via="away.org")}
    with pytest.raises(SendLater):
        gateway.moves.current_room(OLD)
    gateway.enters(NEW, replaces(OLD))
    assert gateway.moves.current_room(OLD) == NEW
    assert gateway.rooms[NEW].origin == OLD


async def test_moved_room_stays_one_chat_after_a_restart_and_another_move(file: Path) -> None:
    first = Gateway(file)
    first.hears({OLD: [named("garden"), ends(NEW)]})
    first.enters(NEW, replaces(OLD), named("garden"))
    await first.position.save()
    again = Gateway(file)
    again.hears({NEW: [replaces(OLD), named("garden"), ends(NEWER)]})  # the old one is left
    again.enters(NEWER, replaces(NEW), named("garden"))
    assert again.rooms[NEWER].origin == OLD
    assert again.moves.rooms_of(OLD) == again.moves.rooms_of(NEWER) == [NEWER, NEW, OLD]
    assert [(chat.chat_id, chat.name) for chat in again.rooms.names()] == [(OLD, "garden")]


async def test_a_replacement_is_followed_once(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [ends(NEW)]})
    gateway.position.remove_invite(NEW)  # it came to nothing, or we were thrown out
    await gateway.position.save()
    again = Gateway(file)
    again.hears({OLD: [ends(NEW)]})
    assert again.position.invites == {}
    assert again.moves.current_room(OLD) == OLD


def test_unconfirmed_replacement_of_a_room_is_another_room(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [named("garden")]})
    gateway.enters(NEW, replaces(OLD))
    gateway.hears({OLD: [ends(NEWER)]})
    gateway.enters(NEW, replaces(OLD))
    assert gateway.rooms[NEW].origin == NEW
    gateway.enters(NEWER, replaces(OLD))
    assert gateway.moves.current_room(OLD) == NEWER


def test_a_room_that_does_not_say_what_it_replaces_has_a_conversation_of_its_own(file):
    gateway = Gateway(file)
    gateway.hears({OLD: [ends(NEW)]})
    gateway.enters(NEW, replaces("!another:away.org"))
    assert gateway.rooms[NEW].origin == NEW
    assert gateway.moves.current_room(OLD) == OLD


def test_already_joined_room_keeps_its_conversation(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [], NEW: [replaces(OLD)]})
    gateway.hears({OLD: [ends(NEW)]})
    gateway.hears({NEW: []})
    assert gateway.position.invites == {}
    assert gateway.rooms[NEW].origin == NEW


def test_a_group_stays_one_while_only_one_person_has_followed(file: Path) -> None:
    gateway = Gateway(file)
    people = [
        {"type": "m.room.member", "state_key": user, "content": {"membership": "join"}}
        for user in (ME_MOVES, ANN, "@bob:away.org")
    ]
    gateway.hears({OLD: [*people, ends(NEW)]})
    gateway.enters(NEW, replaces(OLD), *people[:2])
    assert gateway.rooms[NEW].chat_type == "group"


def test_an_end_without_another_room_is_nothing_to_follow(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [ends("")]})
    assert gateway.position.invites == {}
    assert gateway.moves.current_room(OLD) == OLD

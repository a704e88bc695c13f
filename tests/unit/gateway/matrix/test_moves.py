"""Rooms that replace others: who is believed, and what stays the same."""

from pathlib import Path
from typing import Any

import pytest

from hermes.gateway.platforms.kit.contract import SendLater
from hermes.gateway.platforms.matrix.client import MatrixRooms
from hermes.gateway.platforms.matrix.sync import (
    InviteHandler,
    RoomInvite,
    RoomUpgrades,
    SyncPosition,
)
from hermes.util.clock import SystemClock

ME, ANN = "@hermes:home.org", "@ann:away.org"
OLD, NEW, NEWER = "!old:away.org", "!new:away.org", "!newer:away.org"
Json = dict[str, Any]


class Gateway:
    """What one process knows; the file stays."""

    def __init__(self, file: Path) -> None:
        self.rooms, self.position = MatrixRooms(ME), SyncPosition(file, ME)
        invites = InviteHandler(None, self.position, self.rooms, ME, SystemClock())
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


async def test_it_stays_one_chat_over_a_restart_and_another_move(file: Path) -> None:
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


def test_what_only_says_that_it_replaces_a_room_is_another_one(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [named("garden")]})
    gateway.enters(NEW, replaces(OLD))
    gateway.hears({OLD: [ends(NEWER)]})
    gateway.enters(NEW, replaces(OLD))
    assert gateway.rooms[NEW].origin == NEW
    gateway.enters(NEWER, replaces(OLD))
    assert gateway.moves.current_room(OLD) == NEWER


def test_a_room_that_does_not_say_what_it_replaces_has_a_conversation_of_its_own(
    file: Path,
) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [ends(NEW)]})
    gateway.enters(NEW, replaces("!another:away.org"))
    assert gateway.rooms[NEW].origin == NEW
    assert gateway.moves.current_room(OLD) == OLD


def test_a_room_that_we_are_in_already_keeps_its_conversation(file: Path) -> None:
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
        for user in (ME, ANN, "@bob:away.org")
    ]
    gateway.hears({OLD: [*people, ends(NEW)]})
    gateway.enters(NEW, replaces(OLD), *people[:2])
    assert gateway.rooms[NEW].chat_type == "group"


def test_an_end_without_another_room_is_nothing_to_follow(file: Path) -> None:
    gateway = Gateway(file)
    gateway.hears({OLD: [ends("")]})
    assert gateway.position.invites == {}
    assert gateway.moves.current_room(OLD) == OLD

"""Invitations are followed, not too many at a time; calls are made until they are done."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import aiohttp
import pytest

from hermes.gateway.platforms.matrix.client import (
    MAX_SERVER_ERRORS,
    MatrixError,
    MatrixRooms,
    retry_until_final,
)
from hermes.gateway.platforms.matrix.sync import (
    INVITES_PER_USER,
    MAX_ATTEMPTS,
    InviteHandler,
    SyncPosition,
)
from tests.unit.gateway.hand_clock import HandClock

ME = "@hermes:example.org"


class Homeserver:
    """Takes calls, and says no when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.refusal: Exception | None = None

    async def call(self, method: str, where: str, body: Any = None, **_: Any) -> dict[str, Any]:
        self.calls.append((f"{method} {where}", body))
        if self.refusal:
            raise self.refusal
        return {}

    @property
    def joined(self) -> int:
        return sum("/join/" in call for call, _ in self.calls)


def invitation(*rooms: str, direct: bool = False) -> dict[str, Any]:
    content = {"membership": "invite", "is_direct": direct}
    event = {"type": "m.room.member", "state_key": ME, "sender": "@ann:example.org"}
    state = {"invite_state": {"events": [event | {"content": content}]}}
    return {"rooms": {"invite": dict.fromkeys(rooms, state)}}


class News(asyncio.Event):
    """An event that records that a task waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.is_awaited.set()
        return await super().wait()


class Guest:
    def __init__(self, folder: Path) -> None:
        self.server, self.clock = Homeserver(), HandClock()
        self.position = SyncPosition(folder / "sync.json", ME)
        wire: Any = self.server
        self.invites = InviteHandler(wire, self.position, MatrixRooms(ME), ME, self.clock)
        self.news = self.invites._changed_invites = News()

    async def run(self) -> None:
        """One round: until it waits for new invitations."""
        self.news.is_awaited.clear()
        task = asyncio.create_task(self.invites.run())
        await self.news.is_awaited.wait()
        task.cancel()
        await asyncio.wait([task])


async def test_an_invitation_to_talk_in_private_is_followed_and_noted(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.invites.handle_sync(invitation("!one", direct=True))
    await guest.run()
    join, noted = guest.server.calls
    assert join[0].endswith("/join/%21one")
    assert noted[0].endswith("/account_data/m.direct")
    assert noted[1] == {"@ann:example.org": ["!one"]}
    assert guest.position.invites == {}


async def test_one_person_cannot_have_us_join_everything_at_once(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.invites.handle_sync(invitation(*(f"!{number}" for number in range(20))))
    await guest.run()
    assert guest.server.joined == INVITES_PER_USER.count
    again = SyncPosition(tmp_path / "sync.json", ME)
    assert len(again.invites) == 20 - INVITES_PER_USER.count
    guest.clock.time += INVITES_PER_USER.seconds
    await guest.run()
    assert guest.server.joined == 2 * INVITES_PER_USER.count


async def test_an_invitation_that_came_to_nothing_is_given_up(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.server.refusal = MatrixError(403, "M_FORBIDDEN", "no")
    guest.invites.handle_sync(invitation("!one"))
    await guest.run()
    assert guest.position.invites == {}


async def test_an_invitation_is_tried_again_but_not_for_ever(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.server.refusal = MatrixError(502, "", "a server is away")
    guest.invites.handle_sync(invitation("!one"))
    for _ in range(MAX_ATTEMPTS):
        assert guest.position.invites
        await guest.run()
        guest.clock.time += INVITES_PER_USER.seconds
    assert (guest.position.invites, guest.server.joined) == ({}, MAX_ATTEMPTS)


async def test_a_withdrawn_invitation_is_forgotten(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.invites.handle_sync(invitation("!one"))
    guest.invites.handle_sync({"rooms": {"leave": {"!one": {}}}})
    assert guest.position.invites == {}


async def outcome(errors: list[Exception]) -> str:
    clock, left = HandClock(), list(errors)

    async def call() -> str:
        if left:
            raise left.pop(0)
        return "had"

    work = asyncio.create_task(retry_until_final(call, clock, "not had", "it"))
    while not work.done():
        await clock.advance(60.0)
    return await work


async def test_what_must_be_had_is_asked_for_until_it_is() -> None:
    broken = aiohttp.ClientConnectionError()
    assert await outcome([broken] * 50 + [MatrixError(429, "M_LIMIT_EXCEEDED", "", 9.0)]) == "had"
    assert await outcome([MatrixError(500, "", "")] * (MAX_SERVER_ERRORS - 1)) == "had"


async def test_one_broken_room_does_not_hold_up_the_rest() -> None:
    assert await outcome([MatrixError(500, "", "")] * MAX_SERVER_ERRORS) == "not had"
    assert await outcome([MatrixError(403, "M_FORBIDDEN", "")]) == "not had"


async def test_a_refused_login_ends_the_asking() -> None:
    with pytest.raises(MatrixError):
        await outcome([MatrixError(401, "M_UNKNOWN_TOKEN", "")])

"""HTTP to the homeserver, retries and room state."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec
import pytest

from hermes.core.testing.http_server import LoopbackServer, Outgoing
from hermes_plugins.platforms.matrix.client import (
    MAX_SERVER_ERRORS,
    MatrixClient,
    MatrixError,
    MatrixRooms,
    SyncPosition,
    retry_until_final,
)
from hermes_plugins.platforms.matrix.inbound import (
    INVITES_PER_USER,
    MAX_ATTEMPTS,
    MAX_PAGES,
    InviteHandler,
    fetch_new_events,
    since_entered,
)
from tests.unit.gateway.hand_clock import HandClock

LIMITED = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}


class Limiting:
    """A homeserver that is asked too often."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body: dict[str, Any] = {}
        self._server = LoopbackServer(lambda _request: self._answer())
        self.url, self.close = f"http://127.0.0.1:{self._server.port}", self._server.close

    def _answer(self) -> Outgoing:
        headers = {"Content-Type": "application/json", **self.headers}
        return Outgoing(429, headers, [msgspec.json.encode(LIMITED | self.body)])


@pytest.fixture
def homeserver() -> Iterator[Limiting]:
    server = Limiting()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("body", "headers", "seconds"),
    [
        ({"retry_after_ms": 1500}, {}, 1.5),
        ({}, {"Retry-After": "7"}, 7.0),
        ({"retry_after_ms": 1500}, {"Retry-After": "7"}, 1.5),
        ({}, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({}, {}, 0.0),
    ],
)
async def test_retry_delay_is_read_from_header_or_body(homeserver, body, headers, seconds):
    homeserver.body, homeserver.headers = body, headers
    wire = MatrixClient(homeserver.url)
    try:
        with pytest.raises(MatrixError) as told:
            await wire.get("/_matrix/client/v3/sync")
    finally:
        await wire.close()
    assert (told.value.code, told.value.seconds) == ("M_LIMIT_EXCEEDED", seconds)


ME = "@hermes:example.org"


class Homeserver:
    """Accepts calls, and refuses them on request."""

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


async def test_invitations_of_one_user_are_limited(tmp_path: Path) -> None:
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


async def test_required_request_is_retried_until_it_succeeds() -> None:
    broken = aiohttp.ClientConnectionError()
    assert await outcome([broken] * 50 + [MatrixError(429, "M_LIMIT_EXCEEDED", "", 9.0)]) == "had"
    assert await outcome([MatrixError(500, "", "")] * (MAX_SERVER_ERRORS - 1)) == "had"


async def test_broken_room_does_not_block_the_others() -> None:
    assert await outcome([MatrixError(500, "", "")] * MAX_SERVER_ERRORS) == "not had"
    assert await outcome([MatrixError(403, "M_FORBIDDEN", "")]) == "not had"


async def test_a_refused_login_ends_the_asking() -> None:
    with pytest.raises(MatrixError):
        await outcome([MatrixError(401, "M_UNKNOWN_TOKEN", "")])


def state(kind: str, content: dict[str, Any], key: str = "") -> dict[str, Any]:
    return {"type": kind, "state_key": key, "content": content, "event_id": f"${kind}{key}"}


def joined(*events: dict[str, Any], people: int = 2) -> dict[str, Any]:
    summary = {"m.joined_member_count": people, "m.invited_member_count": 0}
    return {"summary": summary, "state": {"events": list(events)}}


def named(*events: dict[str, Any], people: int = 2, direct: Any = None) -> MatrixRooms:
    found = MatrixRooms(ME)
    data = {"events": [{"type": "m.direct", "content": direct or {}}]}
    join = {"!r": joined(*events, people=people)}
    found.update({"account_data": data, "rooms": {"join": join}})
    return found


NAME = state("m.room.name", {"name": "Garden"})


def test_two_in_a_room_without_a_name_talk_in_private() -> None:
    assert named()["!r"].chat_type == "dm"


def test_a_room_with_a_name_is_a_group_unless_it_was_made_as_a_private_chat() -> None:
    assert named(NAME)["!r"].chat_type == "group"
    assert named(NAME, direct={"@ann:example.org": ["!r"]})["!r"].chat_type == "dm"
    invited = state("m.room.member", {"membership": "invite", "is_direct": True}, ME)
    assert named(NAME, invited)["!r"].chat_type == "dm"


def test_three_never_talk_in_private() -> None:
    assert named(people=3, direct={"@ann:example.org": ["!r"]})["!r"].chat_type == "group"


def test_user_name_comes_from_the_room() -> None:
    ann = state("m.room.member", {"membership": "join", "displayname": "Ann"}, "@ann:example.org")
    room = named(NAME, ann)["!r"]
    assert room.user_name("@ann:example.org") == "Ann"
    assert room.user_name("@bob:example.org") == "bob"


def test_room_is_forgotten_after_leaving() -> None:
    found = named(NAME)
    assert [chat.name for chat in found.names()] == ["Garden"]
    found.update({"rooms": {"leave": {"!r": {}}}})
    assert found.names() == ()


def test_nonsense_of_a_homeserver_breaks_nothing() -> None:
    found = MatrixRooms(ME)
    found.update({"rooms": {"join": {"!r": {"state": [], "summary": 7, "timeline": None}}}})
    found.update({"rooms": [], "account_data": {"events": [{"type": "m.direct"}, 7]}})
    assert found["!r"].title == "!r"


def member(membership: str, before: str = "", user: str = ME) -> dict[str, Any]:
    event = state("m.room.member", {"membership": membership}, user)
    return event | {"unsigned": {"prev_content": {"membership": before} if before else {}}}


def said(name: str) -> dict[str, Any]:
    return {"type": "m.room.message", "event_id": name}


# Not a join, also where the homeserver does not say what was before.
RENAMED = member("join") | {"unsigned": {"replaces_state": "$before"}}
STAYED = [member("join", "join"), member("join", user="@ann:example.org")]


@pytest.mark.parametrize(
    ("events", "first"),
    [
        ([said("a"), *STAYED, said("b")], 0),
        ([said("a"), member("invite"), said("b"), member("join", "invite"), said("c")], 2),
        ([said("a"), member("join"), said("b")], 2),
        ([said("a"), RENAMED, said("b")], 0),
    ],
    ids=["joined before", "from the invitation", "from the join", "own new display name"],
)
def test_events_count_since_the_room_was_entered(events, first):
    assert since_entered(events, ME) == events[first:]


class History:
    """What was said in a room, newest first, a page at a time."""

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self._pages, self.asked = list(pages), list[dict[str, str]]()

    async def get(self, where: str, query: dict[str, str]) -> dict[str, Any]:
        self.asked.append(query)
        page = len(self.asked) - 1
        last = page + 1 >= len(self._pages)
        return {"chunk": self._pages[page]} | ({} if last else {"end": f"t{page + 1}"})


async def missed(history: History, *events: dict[str, Any]) -> list[str]:
    wire: Any = history
    timeline = {"limited": True, "prev_batch": "t0", "events": list(events)}
    room = MatrixRooms(ME)["!r"]
    found = await fetch_new_events(wire, room, {"timeline": timeline}, "since", ME)
    return [event["event_id"] for event in found if event["type"] == "m.room.message"]


async def test_gap_is_filled_back_to_the_last_position() -> None:
    history = History([said("d"), said("c")], [said("b"), said("a")])
    assert await missed(history, said("d"), said("e")) == ["a", "b", "c", "d", "e"]
    assert [(asked["from"], asked["to"]) for asked in history.asked] == [
        ("t0", "since"),
        ("t1", "since"),
    ]


async def test_too_long_a_gap_is_filled_as_far_as_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    history = History(*([said(f"m{number}")] for number in range(99)))
    found = await missed(history, said("now"))
    assert (len(history.asked), found[-1], len(found)) == (MAX_PAGES, "now", MAX_PAGES + 1)
    assert "are skipped" in caplog.text


async def test_a_new_room_is_read_back_to_the_invitation_and_no_further() -> None:
    history = History([said("c"), member("invite"), said("b")], [said("a")])
    assert await missed(history, member("join", "invite"), said("d")) == ["c", "d"]
    assert len(history.asked) == 1
    assert "to" not in history.asked[0]


async def test_of_a_new_room_without_an_invitation_nothing_old_is_read() -> None:
    history = History(*([said(f"m{number}")] for number in range(99)))
    assert await missed(history, member("join"), said("now")) == ["now"]

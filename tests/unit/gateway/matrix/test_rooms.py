"""Rooms, and where in them we begin to listen."""

from typing import Any

import pytest

from hermes.gateway.platforms.matrix.client import MatrixRooms
from hermes.gateway.platforms.matrix.sync import MAX_PAGES, fetch_new_events, since_entered

ME = "@hermes:example.org"


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


def test_who_somebody_is_comes_from_the_room() -> None:
    ann = state("m.room.member", {"membership": "join", "displayname": "Ann"}, "@ann:example.org")
    room = named(NAME, ann)["!r"]
    assert (room.user_name("@ann:example.org"), room.user_name("@bob:example.org")) == (
        "Ann",
        "bob",
    )


def test_a_room_we_left_is_forgotten() -> None:
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


def test_where_we_were_before_everything_is_new() -> None:
    events = [said("a"), member("join", "join"), member("join", user="@ann:example.org"), said("b")]
    assert since_entered(events, ME) == events


def test_in_a_room_we_came_into_we_listen_from_the_invitation_on() -> None:
    events = [said("a"), member("invite"), said("b"), member("join", "invite"), said("c")]
    assert since_entered(events, ME) == events[2:]


def test_without_an_invitation_we_listen_from_when_we_came() -> None:
    events = [said("a"), member("join"), said("b")]
    assert since_entered(events, ME) == [said("b")]


def test_a_new_name_of_ours_is_no_coming_in() -> None:
    """Also where the homeserver does not say what was before."""
    renamed = member("join") | {"unsigned": {"replaces_state": "$before"}}
    events = [said("a"), renamed, said("b")]
    assert since_entered(events, ME) == events


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


async def test_a_gap_is_filled_back_to_where_we_were() -> None:
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
    assert "left out" in caplog.text


async def test_a_new_room_is_read_back_to_the_invitation_and_no_further() -> None:
    history = History([said("c"), member("invite"), said("b")], [said("a")])
    assert await missed(history, member("join", "invite"), said("d")) == ["c", "d"]
    assert len(history.asked) == 1
    assert "to" not in history.asked[0]


async def test_of_a_new_room_without_an_invitation_nothing_old_is_read() -> None:
    history = History(*([said(f"m{number}")] for number in range(99)))
    assert await missed(history, member("join"), said("now")) == ["now"]

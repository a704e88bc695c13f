"""Delivery to the gateway, group rules and the read position."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.errors import ConfigError
from hermes.sdk.platforms import (
    OVERLAP,
    CatchUpQueue,
    GroupRules,
    IdScale,
    MessageEvent,
    ReadPosition,
    SessionSource,
    deliver_once,
    deliver_until_accepted,
    group_rules,
    is_addressed,
    is_for_us,
    mentions,
    strip_mention,
    write_private,
)
from hermes.sdk.platforms.inbound import MAX_AWAY_SECONDS, MAX_CHATS, MAX_RECENT, MAX_THREADS
from hermes_plugins.platforms.discord import client as discord_ids
from hermes_plugins.platforms.discord.manifest import DiscordSettings
from hermes_plugins.platforms.matrix.manifest import MatrixSettings
from hermes_plugins.platforms.slack import client as slack_ids
from hermes_plugins.platforms.telegram.manifest import TelegramSettings
from tests.cases import cases

NOW = 1_790_000_000.0


class Kind(msgspec.Struct, frozen=True):
    scale: IdScale
    name: Callable[[float], Any]
    """Of a message that was written so many seconds after NOW."""


KINDS = {
    "numbers": Kind(discord_ids.SCALE, lambda after: discord_ids.id_at(NOW + after)),
    "times": Kind(slack_ids.SCALE, lambda after: f"T1/C1:{slack_ids.timestamp_at(NOW + after)}"),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "seen.json"


def begun(path: Path, kind: Kind) -> ReadPosition[Any]:
    seen: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    seen.start(NOW)
    return seen


def again(seen: ReadPosition[Any], path: Path, kind: Kind) -> ReadPosition[Any]:
    seen.flush()
    return ReadPosition(path, "Test", kind.scale)


def since(seen: ReadPosition[Any], kind: Kind, now: float = NOW + 1000) -> float:
    return kind.scale.time_of(seen.missed_since(now)) - NOW


def test_ids_of_discord_and_times_are_one_thing() -> None:
    assert discord_ids.id_time(175928847299117063) == pytest.approx(1462015105.796)
    assert discord_ids.id_time(discord_ids.id_at(NOW)) == NOW
    assert discord_ids.id_at(0.0) == 0


def test_the_first_time_there_is_nothing_to_make_up_for(path: Path, kind: Kind) -> None:
    seen: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    assert not seen.start(NOW)
    assert again(seen, path, kind).start(NOW + 5)


def test_finished_messages_are_not_fetched_again_beyond_an_overlap(path: Path, kind: Kind) -> None:
    seen, later = begun(path, kind), kind.name(600)
    seen.mark_pending(later)
    assert (seen.is_known(later), seen.is_done(later)) == (True, False)
    seen.mark_done(later)
    seen = again(seen, path, kind)
    assert seen.is_done(later)
    assert since(seen, kind) == 600 - OVERLAP


def test_pending_message_is_fetched_again_even_when_later_ones_are_done(path, kind):
    seen, waiting, done = begun(path, kind), kind.name(300), kind.name(900)
    seen.mark_pending(waiting)
    seen.mark_pending(done)
    seen.mark_done(done)
    after = again(seen, path, kind)
    assert not after.is_known(waiting)
    assert since(after, kind) < 300
    seen.mark_done(waiting)
    assert since(again(seen, path, kind), kind) == 900 - OVERLAP


def test_nothing_counts_for_good_while_something_may_be_missing(path: Path, kind: Kind) -> None:
    seen = again(begun(path, kind), path, kind)
    assert seen.start(NOW + 50)
    seen.mark_done(kind.name(60))
    assert since(again(seen, path, kind), kind) == -OVERLAP
    seen.caught_up()
    assert since(seen, kind) == 60 - OVERLAP


def test_messages_older_than_the_limit_are_not_fetched(path: Path, kind: Kind) -> None:
    assert since(begun(path, kind), kind, NOW + 10 * MAX_AWAY_SECONDS) == 9 * MAX_AWAY_SECONDS


def test_read_position_is_bounded(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    for number in range(MAX_RECENT + 10):
        seen.mark_done(kind.name(number))
        seen.add_private(str(number), "somebody")
        seen.add_thread(str(number))
    assert not seen.is_done(kind.name(0))
    assert (len(seen.private), len(seen.threads)) == (MAX_CHATS, MAX_THREADS)
    after = again(seen, path, kind)
    assert (after.has_thread("0"), after.has_thread(str(MAX_RECENT + 9))) == (False, True)


def test_a_chat_that_is_used_is_remembered_longest(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    for number in range(MAX_CHATS):
        seen.add_private(str(number), "somebody")
    seen.add_private("0", "Ann")
    seen.add_private("new", "Bob")
    assert seen.private["0"] == "Ann"
    assert "1" not in seen.private


async def test_recorded_batch_is_known_at_once_and_after_a_crash(path: Path, kind: Kind) -> None:
    names = [kind.name(number) for number in range(3)]
    seen = begun(path, kind)
    await seen.record_batch(names[:2])
    crashed: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    for each in (seen, crashed):
        assert each.batch_of(names[1]) == tuple(names[:2])
        assert each.batch_of(names[2]) == ()


async def test_a_slow_write_does_not_undo_what_was_joined_since(path, kind, monkeypatch):
    began, may_end = threading.Event(), threading.Event()

    def slowly(path: Path, data: bytes) -> None:
        if not began.is_set():
            began.set()
            may_end.wait(10)
        write_private(path, data)

    monkeypatch.setattr("hermes.sdk.platforms.inbound.write_private", slowly)
    seen = begun(path, kind)
    keeping = asyncio.create_task(seen.write_changes())
    await asyncio.to_thread(began.wait, 10)
    joining = asyncio.create_task(seen.record_batch([kind.name(1), kind.name(2)]))
    await asyncio.sleep(0)
    may_end.set()
    await joining
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert ReadPosition(path, "Test", kind.scale).batch_of(kind.name(1))


async def test_a_write_that_is_cancelled_is_not_overtaken(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    path.parent.mkdir()
    keeping = asyncio.create_task(seen.write_changes())
    while not path.exists():
        await asyncio.sleep(0.001)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    seen.mark_done(kind.name(600))
    assert since(again(seen, path, kind), kind) == 600 - OVERLAP


def test_position_file_is_private(path: Path, kind: Kind) -> None:
    begun(path, kind).flush()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_begins_anew(path: Path, kind: Kind) -> None:
    path.parent.mkdir()
    path.write_text("{")
    assert not ReadPosition(path, "Test", kind.scale).start(NOW)


def test_a_place_that_cannot_be_written_stops_nothing(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    path.parent.write_text("a file where a folder should be")
    seen.flush()
    assert since(seen, kind) == -OVERLAP


def message(text: str = "hi", *, chat: str = "c", thread: str = "", **fields) -> MessageEvent:
    chat_type = fields.pop("chat_type", "group")
    now = fields.pop("now", "")
    source = SessionSource("discord", chat, chat_type, "u", thread_id=thread, chat_now=now)
    return MessageEvent(source, "m", text, **fields)


def test_group_rules_decide_which_messages_are_for_us() -> None:
    for reason, rules, messages in cases(__file__)["rules"]:
        for fields, expected in messages:
            found = is_for_us(message(**fields), msgspec.convert(rules, GroupRules))
            assert found is expected, (reason, fields)


def test_a_pattern_that_is_none_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="mention_patterns"):
        is_addressed(message(), GroupRules(mention_patterns=("(",)))


def test_rules_come_from_the_section_of_the_platform() -> None:
    discord = DiscordSettings(free_response_channels=("1",), ignored_channels=("2",))
    assert group_rules(discord) == GroupRules(
        require_mention=True, free_response=frozenset({"1"}), ignored=frozenset({"2"})
    )
    telegram = TelegramSettings(ignored_threads=("17",), mention_patterns=("bot",))
    assert group_rules(telegram) == GroupRules(mention_patterns=("bot",), ignored=frozenset({"17"}))
    assert group_rules(MatrixSettings(free_response_rooms=("!r",))).free_response == {"!r"}
    assert group_rules(None) == GroupRules()


def test_a_name_is_mentioned_as_a_word() -> None:
    assert mentions("well @Hermes, so", ("hermes",))
    for text in ("@hermesian", "a@hermes", "hermes", "@@hermes"):
        assert not mentions(text, ("hermes",))


def test_an_address_is_taken_off_the_text() -> None:
    assert strip_mention("@hermes: what is it", ("hermes",)) == "what is it"
    assert strip_mention("what is it @Hermes", ("hermes",)) == "what is it"
    assert strip_mention("ask @hermes about it", ("hermes",)) == "ask @hermes about it"


def test_message_of_blanks_is_parsed_quickly() -> None:
    """A pattern that tries again from every blank would take minutes."""
    blanks = " " * 200_000
    assert strip_mention(f"@hermes hi{blanks}you", ["hermes"]) == f"hi{blanks}you"
    assert strip_mention(f"hi{blanks}@hermes{blanks}", ["hermes"]) == "hi"


EVENT = MessageEvent(SessionSource("discord", "c"), "m", "hello")


async def test_event_is_offered_with_growing_pauses_until_accepted() -> None:
    answers, pauses = [False, False, False, True], []

    async def receive(event: MessageEvent) -> bool:
        assert event is EVENT
        return answers.pop(0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await deliver_until_accepted(receive, EVENT, sleep, first=1.0, longest=3.0)
    assert answers == []
    assert pauses == [1.0, 2.0, 3.0]


async def test_gateway_error_is_logged_and_the_event_is_not_accepted(caplog) -> None:
    async def receive(event: MessageEvent) -> bool:
        raise ValueError("a fault")

    assert not await deliver_once(receive, EVENT)
    assert "a fault" in caplog.text


class CaughtUp:
    """The read position, as far as the queue needs it."""

    done = False

    def caught_up(self) -> None:
        self.done = True


async def test_missed_messages_are_released_before_the_live_ones() -> None:
    found, order, position = asyncio.Event(), [], CaughtUp()

    async def fetch() -> list[str]:
        await found.wait()
        return ["missed"]

    queue = CatchUpQueue(position, fetch, lambda *both: order.append(both), (OSError,))
    assert not queue.hold("before")
    queue.start()
    assert queue.hold("live")
    found.set()
    await asyncio.wait([queue._task])
    assert (order, position.done, queue.hold("after")) == ([(["missed"], ["live"])], True, False)


async def test_live_messages_do_not_wait_for_an_attempt_that_fails_or_takes_too_long() -> None:
    failures, order = [OSError("away")], []
    released = asyncio.Event()

    async def fetch() -> list[str]:
        if failures:
            raise failures.pop()
        await released.wait()
        return ["missed"]

    def release(missed: list[str], held: list[str]) -> None:
        order.append((list(missed), list(held)))

    queue = CatchUpQueue(
        CaughtUp(), fetch, release, (OSError,), longest=0.01, sleep=lambda _s: asyncio.sleep(0)
    )
    queue.start()
    queue.hold("live")
    await asyncio.sleep(0.05)  # the failed attempt, then the time limit of the second
    assert order[0] == ([], ["live"])
    assert not queue.hold("later")
    released.set()
    await asyncio.wait([queue._task])
    assert order[-1] == (["missed"], [])
    await queue.close()

"""A sent message arrives exactly once, despite failures in between."""

import asyncio

import msgspec

from hermes.sdk.platforms import (
    ChatTarget,
    CredentialsRefused,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.harness import (
    Inbox,
    attempt,
    connected,
    failure,
    query_of,
    shown_with,
    talking,
)
from tests.integration.platforms.matrix.harness import MatrixHarness
from tests.integration.platforms.matrix.people import PASSWORD, path


async def test_a_key_used_twice_shows_one_message_also_after_a_restart(matrix):
    async with talking(matrix) as (adapter, _, event):
        target = event.source.target
        first = await adapter.send(target, OutgoingMessage("only one"), "key")
        assert await adapter.send(target, OutgoingMessage("only one"), "key") == first
    async with connected(matrix) as (adapter, _):
        assert await adapter.send(target, OutgoingMessage("only one"), "key") == first
    assert len(await matrix.shown(target.chat_id)) == 1


async def test_a_connection_that_stays_broken_leaves_doubt_and_one_message(matrix):
    async with talking(matrix) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("in doubt", plain="in doubt")
        matrix.trouble("cut_after", times=9)
        assert isinstance(await attempt(adapter, target, message, "key"), SendUnsure)
        matrix.proxy.troubles.clear()
        assert await adapter.was_delivered(query_of("key"), target, message) is None
        await adapter.send(target, message, "key")
        assert len(await shown_with(matrix, "in doubt", target.chat_id)) == 1


async def test_a_new_token_of_the_same_device_shows_one_message(matrix):
    """With a password the device stays the same, whatever becomes of the token."""
    _by_password(matrix)
    async with talking(matrix) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("only one", plain="only one")
        first = await adapter.send(target, message, "key")
    login = _login(matrix)
    await _logged_out(matrix, login["token"])
    async with connected(matrix) as (adapter, _):
        assert _login(matrix)["token"] != login["token"]
        assert _login(matrix)["device_id"] == login["device_id"]
        assert await adapter.was_delivered(query_of("key"), target, message) is None
        assert await adapter.send(target, message, "key") == first
    assert len(await matrix.shown(target.chat_id)) == 1


async def test_message_sent_by_another_device_is_found(matrix):
    async with talking(matrix) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("there", plain="there")
        query = query_of("key")
        never = query_of("never")
        first = await adapter.send(target, message, "key")
        for number in range(3):
            await adapter.send(target, OutgoingMessage("there"), f"other {number}")
    _by_password(matrix)
    async with connected(matrix) as (adapter, _):
        assert _login(matrix)["device_id"] != matrix.us.device_id
        assert await adapter.was_delivered(query, target, message) == first
        assert await adapter.was_delivered(never, target, message) is None


async def test_a_password_logs_in_once(matrix):
    _by_password(matrix)
    matrix.variables["MATRIX_DEVICE_ID"] = "OURS"
    for _ in range(2):
        async with connected(matrix) as (adapter, _):
            await adapter.probe()
    assert _login(matrix)["device_id"] == "OURS"
    assert sum(call.endswith("/login") for call in matrix.proxy.calls) == 1
    assert (matrix.folder / "state" / "login.json").stat().st_mode & 0o777 == 0o600


async def test_wrong_password_is_reported_without_showing_it(matrix):
    _by_password(matrix)
    matrix.variables["MATRIX_PASSWORD"] = "hunter2-hunter2"
    error = await failure(matrix.adapter().connect(Inbox().receive))
    assert isinstance(error, CredentialsRefused)
    assert "hunter2" not in str(error)


async def test_token_of_another_user_is_refused(matrix):
    matrix.variables["MATRIX_USER_ID"] = "@other:localhost"
    error = await failure(matrix.adapter().connect(Inbox().receive))
    assert isinstance(error, CredentialsRefused)
    assert matrix.us.user_id in str(error)


async def test_room_without_membership_is_refused(matrix):
    async with talking(matrix, group=True) as (adapter, _, event):
        owner, room_id = await matrix.person(), event.source.chat_id
        await owner.call("POST", path("rooms", room_id, "kick"), {"user_id": matrix.us.user_id})
        for chat in (room_id, "!nowhere:localhost", "#nowhere:localhost", "@ann:localhost"):
            outcome = await attempt(
                adapter, ChatTarget("matrix", chat), OutgoingMessage("hello?"), chat
            )
            assert isinstance(outcome, SendRefused), chat


async def test_a_message_waits_when_the_login_is_refused(matrix):
    async with talking(matrix) as (adapter, _, event):
        await matrix.refuse_credentials()
        outcome = await attempt(adapter, event.source.target, OutgoingMessage("later"), "key")
        assert isinstance(outcome, SendLater)
        assert outcome.seconds > 1


async def test_a_room_can_be_named_by_its_address(matrix):
    owner = await matrix.person()
    name = matrix.us.user_id[1:].partition(":")[0]
    room_id = await owner.create(room_alias_name=name, preset="public_chat", name="home")
    async with connected(matrix) as (adapter, _):
        await matrix.us.join(room_id)
        sent = await adapter.send(
            ChatTarget("matrix", f"#{name}:localhost"), OutgoingMessage("home"), "key"
        )
        assert sent in {event["event_id"] for event in await owner.events(room_id)}


async def test_a_reaction_from_before_a_restart_can_be_taken_back(matrix):
    async with talking(matrix) as (adapter, _, event):
        target, message_id = event.source.target, event.message_id
        await adapter.react(target, message_id, "👀")
    async with connected(matrix) as (adapter, _):
        await adapter.react(target, message_id, "👀", on=False)
        assert await matrix.reactions(message_id, target.chat_id) == []


async def test_reactions_can_be_turned_off(matrix):
    matrix.variables["MATRIX_REACTIONS"] = "false"
    async with talking(matrix) as (adapter, _, event):
        await adapter.react(event.source.target, event.message_id, "👀")
        assert await matrix.reactions(event.message_id, event.source.chat_id) == []


async def test_messages_mention_no_user_and_are_html_with_plain_text(matrix):
    async with talking(matrix) as (adapter, _, event):
        target, owner = event.source.target, await matrix.person()
        text = "<p>1 &lt; 2</p><ul><li>so</li></ul>"
        await adapter.send(target, OutgoingMessage(text, plain="1 < 2\n- so", silent=True), "key")
        content = (await owner.events(target.chat_id))[-1]["content"]
        assert content["body"] == "1 < 2\n- so"
        assert content["formatted_body"] == text
        assert content["format"] == "org.matrix.custom.html"
        assert (content["msgtype"], content["m.mentions"]) == ("m.notice", {})


async def test_login_that_ends_during_sync_is_detected(matrix):
    async with talking(matrix) as (adapter, _, _):
        await matrix.refuse_credentials()
        async with asyncio.timeout(100):
            while not isinstance(await failure(adapter.probe()), CredentialsRefused):
                await asyncio.sleep(0.01)


def _by_password(matrix: MatrixHarness) -> None:
    matrix.variables.pop("MATRIX_ACCESS_TOKEN")
    matrix.variables |= {"MATRIX_USER_ID": matrix.us.user_id, "MATRIX_PASSWORD": PASSWORD}


def _login(matrix: MatrixHarness) -> dict[str, str]:
    return msgspec.json.decode((matrix.folder / "state" / "login.json").read_bytes())


async def _logged_out(matrix: MatrixHarness, token: str) -> None:
    matrix.us.token = token
    await matrix.us.call("POST", path("logout"), {})

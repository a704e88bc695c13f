"""What the tools of `hermes mcp serve` return, on a store in a file."""

import asyncio
import base64

import msgspec
import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import UsageError
from hermes.core.events import ApprovalAsked, ApprovalScope
from hermes.core.messages import Assistant, Image, Text, ToolCall, ToolResult, User
from hermes.gateway import SharedApproval, SharedResolution
from hermes.mcp_server import ConversationService
from hermes.mcp_server.conversations import MAX_PAGE, MAX_PIECE, MAX_TEXT, NO_GATEWAY, UNKNOWN_CHAT
from hermes.sdk.platforms import SessionSource
from hermes.security import Redactor
from hermes.store import open_store
from hermes.util.concurrency import SystemClock
from hermes.util.processes import process_name

SECRET = "xq7-Zebra-Umbrella-Kettle-42"
CHAT = SessionSource("local", "room", "group", "u1", "Anna", chat_name="Kitchen")
KEY = "agent:main:local:group:room"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def home(hermes_home, monkeypatch, tmp_path):
    hermes_home.mkdir(parents=True)
    monkeypatch.setenv("LOCAL_SOCKET", str(tmp_path / "socket"))
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "u1")
    return Home(hermes_home)


@pytest.fixture
def store(home):
    opened = open_store("", home.state_db)
    yield opened
    opened.close()


@pytest.fixture
def service(home, store):
    return ConversationService(home, load(home), store, SystemClock(), Redactor([SECRET]))


async def session(store, name="s1", *said, source="cli"):
    await store.create(name, source=source, model="m", system_prompt="You are kind.")
    return [
        await store.append(name, Assistant((Text(text),)) if at % 2 else User.say(text))
        for at, text in enumerate(said)
    ]


async def chat(store, *said):
    ids = await session(store, "s-chat", *said, source="local")
    await store.chats.bind(KEY, "s-chat", msgspec.json.encode(CHAT), 1_000.0)
    return ids


def shared(token="t1", **question):
    facts = {"tool": "terminal", "subject": "rm -rf junk", "reason": "it deletes", **question}
    scopes = (ApprovalScope("command", "exactly this"), ApprovalScope("folder", "all", True))
    asked = ApprovalAsked("c1", scopes=scopes, effect="execute", **facts)
    return msgspec.json.encode(SharedApproval(asked, f"full text of {token}", KEY, CHAT.target))


async def ask(store, service, token="t1", owner="", seconds=30.0):
    now = service._now()
    body = shared(token)
    await store.approvals.ask(token, body, owner or process_name(), now=now, until=now + seconds)


class TestConversations:
    async def test_chats_come_before_other_sessions_and_pages_continue(self, store, service):
        await chat(store, "soup?", "yes")
        for number in range(3):
            await session(store, f"s{number}", f"question {number}", "answer")
        await session(store, "hidden", "task of a subagent", source="subagent")
        first = await service.conversations_list("", "", 2, "")
        assert [each["session_key"] for each in first["conversations"]] == [KEY, "s2"]
        second = await service.conversations_list("", "", 2, first["next_cursor"])
        third = await service.conversations_list("", "", 2, second["next_cursor"])
        rest = [each["session_key"] for page in (second, third) for each in page["conversations"]]
        assert rest == ["s1", "s0"]
        assert "next_cursor" not in third

    async def test_search_and_platform_narrow_the_list(self, store, service):
        await chat(store, "soup?")
        await session(store, "s1", "hi")
        await store.set_title("s1", "Tax return")
        for platform, search, found in (
            ("local", "", [KEY]),
            ("", "kitchen", [KEY]),
            ("", "tax", ["s1"]),
            ("cli", "", ["s1"]),
            ("", "nothing", []),
        ):
            page = await service.conversations_list(platform, search, 10, "")
            assert [each["session_key"] for each in page["conversations"]] == found

    async def test_conversation_is_found_by_key_and_by_session(self, store, service):
        await chat(store, "soup?", "yes")
        found = await service.conversation_get(KEY)
        assert found == await service.conversation_get("s-chat")
        assert found["target"] == "local:room"
        assert (found["chat_name"], found["message_count"], found["model"]) == ("Kitchen", 2, "m")
        assert "kind" not in str(found)  # the system prompt

    @pytest.mark.parametrize("name", ["", "none", "hidden"])
    async def test_unknown_and_hidden_conversations_are_refused(self, store, service, name):
        await session(store, "hidden", "task", source="subagent")
        for call in (service.conversation_get(name), service.attachments_fetch(name, 1, None, 0)):
            with pytest.raises(UsageError, match="there is no conversation"):
                await call

    @pytest.mark.parametrize("cursor", ["x", "-1", "9" * 40, "١"])
    async def test_foreign_cursors_are_refused(self, service, cursor):
        with pytest.raises(UsageError, match="the cursor is not one of this server"):
            await service.conversations_list("", "", 10, cursor)
        with pytest.raises(UsageError, match="the cursor is not one of this server"):
            await service.events_poll(cursor, "", 10)


class TestMessages:
    async def test_messages_are_read_in_pages_backwards_and_forwards(self, store, service):
        ids = await chat(store, *(f"m{number}" for number in range(6)))
        last = await service.messages_read(KEY, 2, None, None, tools=False)
        assert [each["text"] for each in last["messages"]] == ["m4", "m5"]
        before = await service.messages_read(KEY, 2, last["next_before"], None, tools=False)
        assert [each["id"] for each in before["messages"]] == ids[2:4]
        after = await service.messages_read(KEY, 3, None, ids[0], tools=False)
        assert [each["text"] for each in after["messages"]] == ["m1", "m2", "m3"]
        end = await service.messages_read(KEY, 9, None, after["next_after"], tools=False)
        assert [each["text"] for each in end["messages"]] == ["m4", "m5"]
        assert "next_after" not in end
        between = await service.messages_read(KEY, 9, ids[4], ids[1], tools=False)
        assert [each["text"] for each in between["messages"]] == ["m2", "m3"]
        assert (await service.messages_read(KEY, 9, 0, None, tools=False))["messages"] == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
    async def test_pages_are_the_whole_conversation_around_a_summary(self, store, service, limit):
        await session(store, "s1", *(f"m{number}" for number in range(150)))
        head, tail = (await store.entries("s1"))[:20], (await store.entries("s1"))[-120:]
        await store.compact("s1", "s2", (*head, User.say("the summary"), *tail))
        await session(store, "other", "elsewhere")
        await store.append("s2", Assistant((ToolCall("c", "terminal", "{}"),), "tool_calls"))
        await store.append("s2", ToolResult("c", "terminal", "hidden"))
        await store.append("s2", Assistant((Text("the end"),)))
        texts: list[str] = []
        before = None
        while not texts or before:
            page = await service.messages_read("s2", limit, before, None, tools=False)
            texts = [*(each["text"] for each in page["messages"]), *texts]
            before = page.get("next_before")
        numbers = [f"m{number}" for number in range(150)]
        assert texts == [*numbers[:20], "the summary", *numbers[-120:], "the end"]
        texts, after = [], 0
        while after is not None:
            page = await service.messages_read("s2", limit, None, after, tools=False)
            texts += [each["text"] for each in page["messages"]]
            after = page.get("next_after")
        assert texts == [*numbers[:20], *numbers[-120:], "the end"]

    async def test_undone_messages_are_not_part_of_the_conversation(self, store, service):
        await session(store, "s1", "one", "two", "three", "four")
        await store.undo("s1")
        page = await service.messages_read("s1", 10, None, None, tools=False)
        assert [each["text"] for each in page["messages"]] == ["one", "two"]

    async def test_tools_are_shown_on_request(self, store, service):
        await session(store, "s1", "list files")
        await store.append("s1", Assistant((ToolCall("c", "terminal", "{}"),), "tool_calls"))
        await store.append("s1", ToolResult("c", "terminal", "a.txt"))
        plain = await service.messages_read("s1", 10, None, None, tools=False)
        assert [each["role"] for each in plain["messages"]] == ["user"]
        full = await service.messages_read("s1", 10, None, None, tools=True)
        assert full["messages"][1]["tool_calls"] == ["terminal"]
        assert (full["messages"][2]["tool"], full["messages"][2]["text"]) == ("terminal", "a.txt")

    async def test_secrets_are_redacted_everywhere(self, store, service):
        ids = await chat(store, f"the key is {SECRET}", f"noted {SECRET}")
        await store.set_title("s-chat", f"about {SECRET}")
        listed = await service.conversations_list("", "", 10, "")
        read = await service.messages_read(KEY, 10, None, None, tools=True)
        polled = await service.events_poll("0", "", 10)
        one = await service.conversation_get(KEY)
        assert len(polled["events"]) == len(ids)
        for result in (listed, read, polled, one):
            assert SECRET not in str(result)

    async def test_secret_at_the_cut_of_a_long_message_is_redacted(self, store, service):
        text = "x" * (MAX_TEXT - 10) + f" {SECRET} " + "y" * 50
        (number,) = await session(store, "s1", text)
        (message,) = (await service.messages_read("s1", 10, None, None, tools=False))["messages"]
        assert message["truncated"]
        assert SECRET[:9] not in message["text"]
        facts, data = await service.attachments_fetch("s1", number, 0, 0)
        assert facts["kind"] == "text"
        assert data.endswith(b"y" * 50)
        assert SECRET.encode() not in data

    async def test_page_has_a_limited_size(self, store, service):
        many = 2 * MAX_PAGE // MAX_TEXT
        await session(store, "s1", *("z" * MAX_TEXT for _ in range(many)))
        page = await service.messages_read("s1", 200, None, None, tools=False)
        assert sum(len(each["text"]) for each in page["messages"]) <= MAX_PAGE
        assert page["next_before"]


class TestAttachments:
    async def test_image_of_a_message_is_fetched(self, store, service):
        await chat(store)
        url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        number = await store.append("s-chat", User((Text("look"), Image(url))))
        facts, _ = await service.attachments_fetch(KEY, number, None, 0)
        assert facts["attachments"][0]["mime_type"] == "image/png"
        assert (await service.attachments_fetch(KEY, number, 0, 0)).data == PNG
        with pytest.raises(UsageError, match="has 1 attachments"):
            await service.attachments_fetch(KEY, number, 1, 0)

    async def test_large_file_comes_in_pieces(self, store, service, home):
        folder = home.root / "cache" / "media" / "chat"
        folder.mkdir(parents=True)
        content = bytes(range(256)) * (MAX_PIECE // 200)
        (folder / "film.mp4").write_bytes(content)
        await chat(store)
        said = User.say(f"see\n[video: {folder / 'film.mp4'}]")
        number = await store.append("s-chat", said)
        first, start = await service.attachments_fetch(KEY, number, 0, 0)
        second, end = await service.attachments_fetch(KEY, number, 0, first["next_offset"])
        assert start + end == content
        assert "next_offset" not in second

    async def test_paths_outside_the_media_folder_are_never_read(self, store, service, home):
        (home.root / ".env").write_text("A_KEY=1")
        media = home.root / "cache" / "media"
        media.mkdir(parents=True)
        (media / "link.txt").symlink_to(home.root / ".env")
        paths = (home.root / ".env", media / ".." / ".." / ".env", media / "link.txt")
        for path in paths:
            await session(store, name := f"s{hash(path)}", f"[document: {path}]")
            (message,) = (await service.messages_read(name, 5, None, None, tools=False))["messages"]
            assert "attachments" not in message

    async def test_message_of_another_conversation_is_refused(self, store, service):
        (other,) = await session(store, "s1", "hi")
        await session(store, "s2", "ho")
        with pytest.raises(UsageError, match="this conversation has no message"):
            await service.attachments_fetch("s2", other, None, 0)


class TestSending:
    async def test_message_is_stored_once_and_says_that_no_gateway_runs(self, store, service):
        await chat(store, "hi")
        for _ in range(2):
            sent = await service.messages_send("local:room", "soup is ready", "soup-1")
            assert (sent["state"], sent["gateway_running"]) == ("pending", False)
            assert sent["note"] == NO_GATEWAY
        rows = await store.outbox.due([("local", "")], 9e9)
        assert [row.key for row in rows] == ["mcp:soup-1:0"]
        sent = await service.messages_send(KEY, "again", "")
        assert sent["target"] == "local:room"

    @pytest.mark.parametrize(
        ("target", "message", "problem"),
        [
            ("telegram:1", "x", "there is no platform 'telegram'"),
            ("local", "x", "local has no home channel"),
            ("local:room", "  ", "the message is empty"),
            ("local:room", "x" * 100_001, "longer than"),
        ],
    )
    async def test_impossible_messages_are_refused(self, store, service, target, message, problem):
        with pytest.raises(UsageError, match=problem):
            await service.messages_send(target, message, "")
        assert await store.outbox.due([("local", "")], 9e9) == ()

    async def test_unknown_chat_is_pointed_out(self, service):
        sent = await service.messages_send("local:nowhere", "x", "")
        assert UNKNOWN_CHAT in sent["note"]

    async def test_channels_are_known_chats_in_pages(self, home, service):
        chats = [{"id": f"c{number}", "name": f"chat {number}"} for number in range(3)]
        file = home.root / "channel_directory.json"
        file.write_bytes(msgspec.json.encode({"platforms": {"local": chats}}))
        first = await service.channels_list("", 2, "")
        assert [each["target"] for each in first["channels"]] == ["local:c0", "local:c1"]
        rest = await service.channels_list("", 2, first["next_cursor"])
        assert [each["name"] for each in rest["channels"]] == ["chat 2"]
        assert "next_cursor" not in rest


class TestEvents:
    async def test_events_continue_exactly_after_each_cursor(self, store, service):
        start = (await service.events_poll("", "", 10))["next_cursor"]
        await chat(store, "one", "two")
        await ask(store, service)
        await session(store, "s1", "three")
        every = (await service.events_poll(start, "", 10))["events"]
        kinds = ["message", "message", "approval_requested", "message"]
        assert [each["type"] for each in every] == kinds
        assert every[2]["text"] == "full text of t1"
        seen, cursor = [], start
        for _ in every:
            page = await service.events_poll(cursor, "", 1)
            seen += page["events"]
            cursor = page["next_cursor"]
            assert page["events"][-1]["cursor"] == cursor
        assert seen == every
        assert (await service.events_poll(cursor, "", 10))["events"] == []

    async def test_events_of_one_conversation(self, store, service):
        await chat(store, "one")
        await session(store, "s1", "two")
        await ask(store, service)
        own = (await service.events_poll("0", KEY, 10))["events"]
        assert [each["type"] for each in own] == ["message", "approval_requested"]
        (other,) = (await service.events_poll("0", "s1", 10))["events"]
        assert other["message"]["text"] == "two"

    async def test_wait_returns_as_soon_as_something_happens(self, store, service):
        await chat(store, "one")
        waiting = asyncio.create_task(service.events_wait("", "", 10, 60_000))
        await asyncio.sleep(0.1)
        await store.append("s-chat", User.say("two"))
        (event,) = (await waiting)["events"]
        assert (event["session_key"], event["message"]["text"]) == (KEY, "two")

    async def test_wait_ends_without_events(self, service):
        found = await service.events_wait("", "", 10, 1)
        assert found == {"events": [], "next_cursor": "0.0"}
        with pytest.raises(UsageError, match="timeout_ms"):
            await service.events_wait("", "", 10, 10**9)


class TestApprovals:
    async def respond(self, service, decision="once", scope="", confirm=False, token="t1"):
        return await service.permissions_respond(token, decision, scope, confirm=confirm)

    async def test_open_approval_has_its_full_text(self, store, service):
        await ask(store, service)
        (approval,) = (await service.permissions_list_open())["approvals"]
        assert approval["text"] == "full text of t1"
        assert approval["decisions"] == ["once", "session", "always", "deny"]
        assert approval["scopes"][1] == {"scope": "folder", "allows": "all", "confirm": True}

    async def test_answer_is_stored_for_the_gateway_and_its_end_reported(self, store, service):
        await ask(store, service)
        answering = asyncio.create_task(self.respond(service, "always", "folder", confirm=True))
        while "answer" not in (known := await store.approvals.get("t1")):
            await asyncio.sleep(0.01)
        assert known["answer"].body == b"always folder confirm"
        done = msgspec.json.encode(SharedResolution("always", "folder", "mcp"))
        await store.approvals.resolve("t1", done, "gateway", 1.0)
        assert await answering == {
            "id": "t1", "accepted": True, "answer": "always", "scope": "folder", "by": "mcp",
        }  # fmt: skip
        with pytest.raises(UsageError, match="was answered already: always"):
            await self.respond(service, "deny")

    @pytest.mark.parametrize(
        ("decision", "scope", "problem"),
        [
            ("always", "planet", "is not a scope"),
            ("always", "folder", "cannot be undone"),
            ("later", "", "is not an answer"),
        ],
    )
    async def test_invalid_answers_leave_the_question_open(
        self, store, service, decision, scope, problem
    ):
        await ask(store, service)
        with pytest.raises(UsageError, match=problem):
            await self.respond(service, decision, scope)
        assert set(await store.approvals.get("t1")) == {"asked"}

    async def test_what_was_not_asked_or_has_expired_cannot_be_answered(self, store, service):
        with pytest.raises(UsageError, match="there is no approval"):
            await self.respond(service)
        await ask(store, service, "t0", seconds=-1.0)  # its process lives, and may extend it
        await ask(store, service, "t1", owner="other-machine:7:1", seconds=-1.0)
        machine = process_name().partition(":")[0]
        await ask(store, service, "t2", owner=f"{machine}:999999999:1")
        for token in ("t0", "t1", "t2"):
            with pytest.raises(UsageError, match="has expired"):
                await self.respond(service, token=token)
        assert (await service.permissions_list_open())["approvals"] == []
        events = (await service.events_poll("0", "", 10))["events"]
        ends = [(each["id"], each["answer"]) for each in events if "answer" in each]
        assert sorted(ends) == [("t1", "expired"), ("t2", "expired")]

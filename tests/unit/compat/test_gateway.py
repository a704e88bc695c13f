"""The gateway by its documented names."""

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hermes.compat.platforms import (
    BasePlatformAdapter,
    PluginAdapter,
    SendResult,
    normalize_event,
    register_platform,
    unregister_platform,
)
from hermes.compat.runtime import script_runtime
from hermes.config.home import Home
from hermes.config.schema import platform_names
from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import User
from hermes.gateway.directory import ChatDirectory
from hermes.gateway.outbox import decode_message
from hermes.gateway.platforms.registry import is_configured, manifest, manifests
from hermes.gateway.session_keys import build_session_key
from hermes.sdk.platforms import (
    AdapterContext,
    ChatInfo,
    ChatTarget,
    Media,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SessionSource,
)
from hermes.store.session_store import SessionStore
from tests.cases import cases

CASES = cases(__file__)

ANNA = SessionSource("telegram", "7", user_id="7", user_name="anna")


def test_the_platforms_are_those_of_the_settings() -> None:
    platform = import_module("gateway.config").Platform
    assert tuple(platform) == platform_names()
    assert platform.TELEGRAM == "telegram"


def test_the_setup_is_read_and_its_secrets_are_not_shown(hermes_home, monkeypatch):
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "123:secret")
    monkeypatch.setenv("TELEGRAM_HOME_CHANNEL", "-100:17")
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(
        "platforms:\n  discord:\n    enabled: true\n    token: other-secret\n"
    )
    config = import_module("gateway.config")
    found = config.GatewayConfig.load()
    assert found.get_connected_platforms() == ["discord", "telegram"]
    assert found.platforms[config.Platform.TELEGRAM].token == "123:secret"
    assert found.platforms["discord"].token == "other-secret"
    assert found.get_home_channel("telegram") == "-100:17"
    assert found.get_home_channel("slack") == found.get_home_channel("gone") == ""
    assert "secret" not in repr(found)


def test_a_setup_of_one_s_own_means_exactly_these_platforms() -> None:
    config = import_module("gateway.config")
    wanted = config.GatewayConfig(
        {
            config.Platform.SLACK: config.PlatformConfig(
                True, "xoxb", extra={"reply_in_thread": False}
            )
        }
    )
    said = wanted.overrides()
    assert said["platforms.slack.enabled"] is True
    assert said["platforms.slack.token"] == "xoxb"
    assert said["platforms.slack.extra"] == {"reply_in_thread": False}
    assert [key for key, value in said.items() if value is False] == [
        f"platforms.{each}.enabled" for each in config.Platform if each != "slack"
    ]


@pytest.mark.parametrize(("text", "parts"), CASES["targets"])
def test_targets_as_they_are_written(text: str, parts: tuple[str, ...]) -> None:
    target = import_module("gateway.delivery").DeliveryTarget.parse(text)
    assert (target.platform, target.chat_id, target.thread_id, target.account) == tuple(parts)
    assert str(target) == target.to_string() == text


def test_the_origin_is_where_something_was_asked() -> None:
    target = import_module("gateway.delivery").DeliveryTarget.parse("origin", ANNA)
    assert str(target) == "telegram:7"


async def test_delivery_is_stored_for_the_gateway(hermes_home, monkeypatch):
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "123:secret")
    router = import_module("gateway.delivery").DeliveryRouter()
    wanted = ["telegram:-100:17", "origin", "local", "signal:1", "telegram"]
    done = await router.deliver("**hello**", wanted, origin=ANNA)
    assert [key for key, value in done.items() if value["success"]] == wanted[:3]
    assert "no platform" in done["signal:1"]["error"]
    assert "home channel" in done["telegram"]["error"]
    assert Path(done["local"]["path"]).read_text() == "**hello**"
    assert Path(done["local"]["path"]).is_relative_to(hermes_home)

    async def rows(store: SessionStore) -> list[Any]:
        return [await store.outbox.get(f"{done[each]['delivery']}:0") for each in wanted[:2]]

    kept = await asyncio.to_thread(script_runtime().with_store, rows)
    assert [json.loads(row.target)["chat_id"] for row in kept] == ["-100", "7"]
    assert decode_message(kept[0].body).plain == "hello"


def test_chat_sessions_and_transcripts() -> None:
    store, mirror = import_module("gateway.session").SessionStore(), import_module("gateway.mirror")
    key = build_session_key(ANNA)
    assert store.list_sessions() == []
    assert store.get_session(ANNA) is None
    assert not mirror.mirror_to_session("telegram", "7", "the train is late")

    async def talked(inner: SessionStore) -> None:
        await inner.create("s1", source="telegram", model="m", system_prompt="")
        await inner.append("s1", User.say("hello"))
        await inner.chats.bind(key, "s1", b'{"platform":"telegram","chat_id":"7"}', 1_000.0)

    script_runtime().with_store(talked)
    (found,) = store.list_sessions()
    assert store.get_session(ANNA) == store.get_session(key) == found
    assert (found.session_key, found.session_id, found.origin.chat_id) == (key, "s1", "7")
    assert store.list_sessions(active_minutes=5) == []
    assert mirror.mirror_to_session("telegram", 7, "the train is late")
    said = store.load_transcript("s1")
    assert [each["role"] for each in said] == ["user", "assistant"]
    assert said[1]["content"].endswith("the train is late")
    assert store.load_transcript("gone") == []


def test_names_of_chats(hermes_home: Path) -> None:
    directory = import_module("gateway.channel_directory")
    assert directory.load_directory() == {"platforms": {}}
    assert directory.format_directory_for_display() == "No chats are known yet."
    hermes_home.mkdir()
    book = ChatDirectory(hermes_home / "channel_directory.json")
    book.add_chats(
        "discord", [ChatInfo("1", "ops", "channel"), ChatInfo("2", "twin", "group", "5")]
    )
    book.add_chats("discord", [ChatInfo("3", "same"), ChatInfo("4", "same")])
    book.save()
    assert directory.load_directory()["platforms"]["discord"][0] == {
        "id": "1", "name": "ops", "type": "channel",
    }  # fmt: skip
    assert directory.resolve_channel_name("discord", "#Ops") == "1"
    assert directory.resolve_channel_name("discord", "twin") == "2:5"
    assert directory.resolve_channel_name("discord", "same") is None
    assert directory.resolve_channel_name("slack", "ops") is None
    assert directory.lookup_channel_name("discord", 1) == "ops"
    assert directory.lookup_channel_name("discord", "9") is None
    assert directory.format_directory_for_display().splitlines()[:2] == [
        "discord:1 (channel: ops)", "discord:2:5 (group: twin)",
    ]  # fmt: skip


def test_strangers_are_let_in_by_code(hermes_home: Path) -> None:
    pairing = import_module("gateway.pairing").PairingStore()
    code = pairing.request("telegram", "7", "anna").code
    assert not pairing.is_approved("telegram", "7")
    assert pairing.approve("telegram", code)[0] == "7"
    assert pairing.is_approved("telegram", "7")
    assert (hermes_home / "pairing" / "telegram-approved.json").is_file()


async def test_emitted_events_reach_hooks(hermes_home, capsys):
    for name, code in (("good", "print(event_type, context['session_key'])"), ("bad", "1 +")):
        folder = hermes_home / "hooks" / name
        folder.mkdir(parents=True)
        (folder / "HOOK.yaml").write_text(f"name: {name}\nevents: [session:start]\n")
        (folder / "handler.py").write_text(f"def handle(event_type, context):\n    {code}\n")
    registry = import_module("gateway.hooks").HookRegistry()
    registry.discover_and_load()
    await registry.emit("session:start", {"session_key": "k"})
    await registry.emit("session:end")
    message = capsys.readouterr()
    assert message.out == "session:start k\n"
    assert "hook bad is left out" in message.err


def test_a_token_is_used_by_one_gateway(user_home: Path) -> None:
    status = import_module("gateway.status")
    assert status.acquire_scoped_lock("pager", "token", {"who": "me"})
    assert status.acquire_scoped_lock("pager", "token")
    (lock,) = user_home.rglob("pager-*.lock")
    taken = import_module("hermes.sdk.platforms.connection")
    with pytest.raises(taken.TokenInUse):
        taken.acquire_scoped_lock("pager", "token", lock.parent)
    status.release_scoped_lock("pager", "token")
    status.release_scoped_lock("pager", "token")
    other = taken.acquire_scoped_lock("pager", "token", lock.parent)
    refused = status.acquire_scoped_lock("pager", "token")
    acquired, problem = refused
    assert not refused
    assert not acquired
    assert "already used" in problem
    taken.release_scoped_lock(other)


class Pager(BasePlatformAdapter):
    """A platform that keeps what it is message."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.message: list[Any] = []
        self.answer: Any = SendResult(success=True, message_id="m1")

    async def connect(self) -> bool:
        return bool(self.config.token)

    async def disconnect(self) -> None:
        self.message.append("bye")

    async def send_message(self, chat_id: str, text: str, **more: Any) -> SendResult:
        self.message.append((chat_id, text, more))
        return self.answer  # type: ignore[no-any-return]

    async def send_image(self, chat_id: str, path: str) -> SendResult:  # type: ignore[override]
        self.message.append((chat_id, Path(path).name))
        return self.answer  # type: ignore[no-any-return]

    async def send_typing(self, chat_id: str, metadata: Any = None) -> None:
        raise RuntimeError("broken")


@pytest.fixture
def pager(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluginAdapter]:
    monkeypatch.setenv("PAGER_TOKEN", "secret")
    register_platform("pager", Pager, credentials=["PAGER_TOKEN"])
    yield bridge(hermes_home)
    unregister_platform("pager")


class Around:
    """As much of an app as an adapter is given."""

    def __init__(self, home: Path) -> None:
        self.loaded = import_module("hermes.config.loader").load(Home(home))


def bridge(home: Path) -> PluginAdapter:
    around = Around(home)
    more = {"cache": home / "cache", "state": home, "locks": home, "extra": {"app": around}}
    return PluginAdapter(
        AdapterContext(manifest("pager"), around.loaded.variable, None, None, **more)
    )


def inner(of: PluginAdapter) -> Pager:
    found = of._inner
    assert isinstance(found, Pager)
    return found


HERE = ChatTarget("pager", "7", "t")


def test_plugin_platform_has_the_capabilities_of_its_methods(pager: PluginAdapter) -> None:
    about = manifests()["pager"]
    assert about.label == "Pager"
    assert about.capabilities.typing is True
    assert about.capabilities.edits is False
    assert about.capabilities.media_out == ("image",)
    assert inner(pager).platform == "pager"
    assert is_configured(about, pager.context.extra["app"].loaded)
    for wrong in ("telegram", "no good"):
        with pytest.raises(UsageError, match="cannot be called"):
            register_platform(wrong, Pager)
    with pytest.raises(UsageError, match="cannot send"):
        register_platform("mute", BasePlatformAdapter)


async def test_messages_go_out_through_the_documented_methods(pager, tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"x")
    assert await pager.send(HERE, OutgoingMessage("hi", reply_to="5"), "k") == "m1"
    inner(pager).answer = None
    assert (
        await pager.send(HERE, OutgoingMessage(media=(Media("image", path=str(picture)),)), "k2")
        == "k2"
    )
    assert inner(pager).message == [
        ("7", "hi", {"reply_to": "5", "metadata": {"thread_id": "t", "key": "k"}}),
        ("7", "a.png"),
    ]
    inner(pager).answer = SendResult(success=False, error="full", retryable=True)
    with pytest.raises(SendLater, match="full"):
        await pager.send(HERE, OutgoingMessage("hi"), "k")
    inner(pager).answer = SendResult(success=False)
    with pytest.raises(SendRefused, match="refused"):
        await pager.send(HERE, OutgoingMessage("hi"), "k")
    with pytest.raises(SendRefused, match="broken"):
        await pager.typing(HERE)


async def test_messages_are_offered_until_they_are_stored(pager: PluginAdapter) -> None:
    seen: list[MessageEvent] = []

    async def receive(event: MessageEvent) -> bool:
        seen.append(event)
        return len(seen) > 1

    await pager.connect(receive)
    source: Any = SessionSource("x", 7, "supergroup", None, thread_id=3)  # type: ignore[arg-type]
    await inner(pager).on_message(MessageEvent(source, 12, "hi"))  # type: ignore[arg-type]
    assert seen[0] == seen[1]
    assert seen[0].source == SessionSource("pager", "7", "group", "", thread_id="3")
    assert seen[0].message_id == "12"
    assert seen[0].addressed
    await pager.disconnect()
    await pager.disconnect()
    assert inner(pager).message == ["bye"]


async def test_a_lost_connection_is_noticed(pager: PluginAdapter) -> None:
    await pager.probe()
    inner(pager).is_connected = False
    with pytest.raises(NotConnected, match="lost"):
        await pager.probe()
    inner(pager).config.token = ""

    async def receive(_event: MessageEvent) -> bool:
        return True

    with pytest.raises(NotConnected, match="could not be connected"):
        await pager.connect(receive)


def test_a_message_without_a_name_gets_one_of_its_own() -> None:
    bare = MessageEvent(SessionSource("pager", "7"), "", "hi")
    assert normalize_event(bare, "pager").message_id != normalize_event(bare, "pager").message_id


def test_a_failing_adapter_is_reported(pager: PluginAdapter, hermes_home: Path) -> None:
    class Broken(Pager):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            raise ValueError("no port")

    register_platform("pager", Broken)
    with pytest.raises(HermesError, match="ValueError: no port"):
        bridge(hermes_home)

"""Outside turns: background tasks, sent messages, hooks, resets, reports."""

import asyncio
import json
import socket
from datetime import timedelta

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import Step
from hermes.gateway import turn_view
from hermes.gateway.process import read_state
from hermes.gateway.turn_view import DisplayOptions

HANDLER = """
import json, pathlib
async def handle(event_type, context):
    with (pathlib.Path(__file__).parent / "seen").open("a") as out:
        out.write(json.dumps([event_type, context]) + "\\n")
"""


@pytest.fixture
def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def send(target: str, message: str) -> Step:
    given = json.dumps({"target": target, "message": message})
    return Step((ToolCall("c1", "send_message", given),))


async def test_the_result_of_background_work_comes_to_the_chat(harness):
    await harness.open()
    await harness.ask("/background count the stars", "Started")
    shown = await harness.wait_for("(session ")
    assert shown.text.endswith("count the stars")


async def test_a_message_is_sent_to_another_chat_and_known_there(harness):
    steps = ["hi ben", send("local:ben", "anna sends regards"), "sent", "from anna"]
    await harness.open(steps, approvals__mode="off")
    await harness.ask("hello", "hi ben", user="ben")
    await harness.ask("greet ben", "sent")
    await harness.wait_for("anna sends regards", chat="ben")
    await harness.wait_idle()  # the copy in ben's conversation is stored after the message
    await harness.ask("who was that", "from anna", user="ben")
    assert "anna sends regards" in str(harness.server.calls[-1].body["messages"])


async def test_model_learns_of_an_unknown_target(harness):
    await harness.open([send("signal:1", "x"), "I cannot"], approvals__mode="off")
    await harness.ask("greet", "I cannot")
    assert "there is no platform" in str(harness.server.calls[-1].body["messages"][-1])


async def test_hooks_are_called_and_a_broken_one_is_harmless(harness):
    for name, handler in (("good", HANDLER), ("bad", "def handle(*_):\n    raise KeyError('x')\n")):
        folder = harness.home / "hooks" / name
        folder.mkdir(parents=True)
        events = "[gateway:startup, agent:start, agent:end, 'command:*']"
        (folder / "HOOK.yaml").write_text(f"name: {name}\nevents: {events}\n")
        (folder / "handler.py").write_text(handler)
    await harness.open()
    await harness.ask("hello", "hello")
    await harness.ask("/status", "Session:")
    seen = harness.home / "hooks" / "good" / "seen"
    await harness.until(lambda: seen.is_file() and seen.read_text().count("\n") == 4, "the hooks")
    heard = dict(json.loads(line) for line in seen.read_text().splitlines())
    assert set(heard) == {"gateway:startup", "agent:start", "agent:end", "command:status"}
    assert heard["agent:start"]["message"] == heard["agent:end"]["response"] == "hello"
    assert heard["command:status"]["user_id"] == "anna"


async def test_hooks_are_called_for_a_new_conversation(harness):
    folder = harness.home / "hooks" / "notes"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("events: [session:start, session:end, session:reset]\n")
    (folder / "handler.py").write_text(HANDLER)
    await harness.open()
    await harness.ask("hello", "hello")
    seen = folder / "seen"
    await harness.until(lambda: seen.is_file() and seen.read_text().count("\n") == 1, "the start")
    old = json.loads(seen.read_text())[1]["session_id"]
    shown = await harness.ask("/new", "A new conversation")
    await harness.until(lambda: seen.read_text().count("\n") == 4, "the hooks")
    heard = dict(json.loads(line) for line in seen.read_text().splitlines()[1:])
    assert {event: facts["session_id"] == old for event, facts in heard.items()} == {
        "session:end": True,
        "session:reset": False,
        "session:start": False,
    }
    assert heard["session:start"]["session_id"] in shown.text
    assert {facts["session_key"] for facts in heard.values()} == {"agent:main:local:dm:anna"}


async def test_a_conversation_that_is_over_is_left_and_a_new_one_begins(harness):
    runner = await harness.open(
        ["noted", "new here"], session_reset__mode="idle", session_reset__idle_minutes=1
    )
    await harness.ask("remember plum", "noted")
    (chat,) = await runner.gateway.store.chats.select()
    old = runner.gateway.clock.now().timestamp() - timedelta(minutes=2).total_seconds()
    await runner.gateway.store.chats.bind(chat.session_key, chat.session_id, b"", old)
    await harness.ask("hello", "new here")
    assert "plum" not in str(harness.server.calls[-1].body["messages"])
    assert (await runner.gateway.store.info(chat.session_id)).end_reason == "session_reset"


async def test_maintenance_ends_conversations_that_are_over(harness):
    runner = await harness.open(session_reset__mode="idle", session_reset__idle_minutes=1)
    await harness.ask("hello", "hello")
    await harness.wait_idle()
    (chat,) = await runner.gateway.store.chats.select()
    old = runner.gateway.clock.now().timestamp() - timedelta(minutes=2).total_seconds()
    await runner.gateway.store.chats.bind(chat.session_key, chat.session_id, b"", old)
    await harness.until(
        lambda: not any(one.working for one in runner.gateway.workers_in_use()), "idle"
    )
    await runner.maintenance.expire()
    (chat,) = await runner.gateway.store.chats.select()
    assert chat.session_id == ""
    assert runner.gateway.open_agents() == {}


async def test_memory_of_a_closed_session_is_saved_before_it_expires(harness):
    idle = {"session_reset__mode": "idle", "session_reset__idle_minutes": 1}
    await harness.open(["hello", "nothing to save"])
    await harness.ask("hi", "hello")
    await harness.wait_idle()
    await harness.close()
    runner = await harness.open(memory__flush_min_turns=1, **idle)
    (chat,) = await runner.gateway.store.chats.select()
    old = runner.gateway.clock.now().timestamp() - timedelta(minutes=2).total_seconds()
    await runner.gateway.store.chats.bind(chat.session_key, chat.session_id, b"", old)
    await runner.maintenance.expire()
    asked = str(harness.server.calls[-1].body["messages"])
    assert "The conversation ends here" in asked and "hi" in asked
    (chat,) = await runner.gateway.store.chats.select()
    assert chat.session_id == ""
    assert runner.gateway.open_agents() == {}


async def test_the_state_file_says_how_it_fares(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    await harness.wait_idle()
    await runner.gateway.status.write()
    state = read_state(harness.home)
    assert state is not None
    (adapter,) = state.adapters
    assert (adapter.platform, adapter.state, state.state) == ("local", "connected", "running")
    assert state.last_in and state.last_out and state.waiting_in == state.waiting_out == 0
    await harness.close()
    assert read_state(harness.home).state == "stopped"


async def test_prometheus_sees_messages_and_answers(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    await harness.wait_idle()
    text = runner.gateway.status.metrics.text().decode()
    assert 'hermes_messages_received_total{platform="local"} 1.0' in text
    assert 'hermes_answers_total{outcome="ok",platform="local"} 1.0' in text
    assert 'hermes_platform_up{platform="local"} 1.0' in text


async def test_boot_file_runs_at_the_start_and_is_reported_to_the_home_channel(
    harness, monkeypatch
):
    harness.home.mkdir(exist_ok=True)
    (harness.home / "BOOT.md").write_text("Say that you are up.")
    monkeypatch.setenv("LOCAL_HOME_CHANNEL", "lobby")
    await harness.open(["I am up."])
    await harness.wait_for("I am up.", chat="lobby")
    assert "Say that you are up." in str(harness.server.calls[0].body["messages"])


async def test_the_home_channel_is_set_from_the_chat(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    runner = await harness.open()
    await harness.ask("/sethome", "home channel of Local")
    assert "LOCAL_HOME_CHANNEL=anna" in (harness.home / ".env").read_text()
    assert runner.gateway.targets.homes()["local"].chat_id == "anna"


async def test_reconnected_platform_gets_waiting_messages(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    runner.gateway.supervisors[0].check()
    await harness.platform.drop()
    await harness.until(
        lambda: runner.gateway.connections.get("local") is None, "the platform is away"
    )
    await runner.gateway.outbox.send("local:anna", "while you were away")
    harness.say("are you there")
    await harness.wait_for("while you were away")
    await harness.wait_for("are you there")


async def test_news_of_a_process_come_to_the_chat(harness, tmp_path):
    given = json.dumps(
        {"command": "sleep 1; echo finished", "background": True, "notify_on_complete": True}
    )
    start = Step((ToolCall("c1", "terminal", given),))

    def answer(request):
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return "started"
        return "it is done" if "background process" in str(last) else start

    await harness.open(answer, gateway__terminal="local")
    await harness.ask("run it", "started")
    await harness.wait_for("it is done")
    await harness.wait_idle()


async def test_prometheus_can_ask_over_http(harness, free_port):
    runner = await harness.open(gateway__metrics_port=free_port)
    await runner.began.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", free_port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    assert b"200 OK" in answer.split(b"\r\n", 1)[0]
    assert b"hermes_platform_up" in answer
    writer.close()


async def test_parts_of_an_answer_come_with_a_pause_where_that_is_wanted(harness):
    await harness.open(
        ["word " * 2000],
        human_delay__mode="custom",
        human_delay__min_ms=150,
        human_delay__max_ms=150,
    )
    await harness.ask("tell me", "word")
    await harness.wait_idle()
    first, second = harness.shown()[:2]
    assert second.at - first.at >= 0.15


async def test_reaction_shows_the_outcome(harness, monkeypatch):
    on = DisplayOptions(reactions=True)
    monkeypatch.setattr(turn_view, "display_options", lambda _settings, _platform: on)
    await harness.open()
    said = harness.say("hello")
    await harness.wait_for("hello")
    await harness.until(lambda: harness.platform.log.reactions.get(said) == ["✅"], "the reaction")

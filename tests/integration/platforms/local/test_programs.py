"""The local platform as a program of its own, the terminal, and locks between processes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hermes.gateway.platforms.local import LocalAdapter
from hermes.gateway.platforms.manifests import LOCAL
from hermes.sdk.platforms import (
    AdapterContext,
    ChatTarget,
    MessageEvent,
    OutgoingMessage,
    TokenInUse,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.sdk.testing.platforms.harness import Inbox
from tests.fakes.local.server import ChatLog, ServerRequest, ShownMessage, read_journal

REPOSITORY = Path(__file__).parents[4]
PROGRAM = "tests.fakes.local.server"
HOLD = """
import sys
from pathlib import Path
from hermes.sdk.platforms.connection import acquire_scoped_lock
lock = acquire_scoped_lock("telegram", "a-token", Path(sys.argv[1]), holder="profile work")
print("held", flush=True)
sys.stdin.read()
"""
ECHO = """
import asyncio, sys
from pathlib import Path
from hermes.sdk.platforms.contract import Button, ChatTarget, OutgoingMessage
from hermes.sdk.platforms.contract import AdapterContext
from hermes.gateway.platforms.local import LocalAdapter
from hermes.gateway.platforms.manifests import LOCAL

async def main():
    folder, seen = Path(sys.argv[1]), asyncio.Queue()
    here = {"LOCAL_SOCKET": "-"}.get
    context = AdapterContext(LOCAL, here, None, None, folder, folder, folder)
    adapter = LocalAdapter(context)
    async def receive(event):
        await seen.put(event)
        return True
    await adapter.connect(receive)
    for number in range(3):
        event = await seen.get()
        target = ChatTarget("local", event.source.chat_id)
        first = f"you said {event.text}{event.button}"
        buttons = (Button("Yes", "pressed-yes"),) if number == 1 else ()
        message = await adapter.send(target, OutgoingMessage(first, buttons=buttons), f"k{number}")
        await adapter.edit(target, message, OutgoingMessage(first + " indeed"))
    await adapter.disconnect()

asyncio.run(main())
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{REPOSITORY / 'src'}{os.pathsep}{REPOSITORY}"}


def adapter_of(folder: Path, socket: str) -> LocalAdapter:
    values = {"LOCAL_SOCKET": socket, "LOCAL_TOKEN": "t"}
    return LocalAdapter(
        AdapterContext(LOCAL, values.get, None, None, folder / "cache", folder, folder / "locks")
    )


async def started(folder: Path) -> asyncio.subprocess.Process:
    words = ("--socket", folder / "s", "--journal", folder / "journal", "--token", "t")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", PROGRAM, *map(str, words), env=environment()
    )
    async with asyncio.timeout(100):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(folder / "s")
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            return process


async def person(folder: Path, *requests: dict) -> list[dict]:
    """What a script with a socket and JSON can do."""
    reader, writer = await asyncio.open_unix_connection(folder / "s")
    answers = []
    for number, request in enumerate(requests, 1):
        writer.write(msgspec.json.encode({**request, "n": number}) + b"\n")
        answers.append(msgspec.json.decode(await reader.readline()))
    writer.close()
    return answers


async def test_the_platform_outlives_a_gateway_and_even_itself(tmp_path):
    process = await started(tmp_path)
    await person(
        tmp_path,
        {"op": "say", "chat": "garden", "user": "ann", "text": "one", "chat_type": "group"},
        {"op": "say", "chat": "garden", "user": "bob", "text": "two", "chat_type": "group"},
    )
    inbox = Inbox()

    async def only_the_first(event: MessageEvent) -> bool:
        return await inbox.receive(event) if event.text == "one" else False

    adapter = adapter_of(tmp_path, str(tmp_path / "s"))
    await adapter.connect(only_the_first)
    event = await inbox.take("one")
    await adapter.send(
        ChatTarget("local", event.source.chat_id), OutgoingMessage("to one"), "key-1"
    )
    await adapter.disconnect()

    process.send_signal(signal.SIGKILL)
    await process.wait()
    process = await started(tmp_path)

    inbox = Inbox()
    await adapter.connect(inbox.receive)
    event = await inbox.take("two")
    assert (event.source.user_id, inbox.texts()) == ("bob", ["two"])
    await adapter.send(ChatTarget("local", "garden"), OutgoingMessage("to two"), "key-2")
    await adapter.disconnect()
    (answer,) = await person(tmp_path, {"op": "look", "chat": "garden"})
    assert [shown["text"] for shown in answer["value"]] == ["to one", "to two"]
    assert len({shown["id"] for shown in answer["value"]}) == 2

    process.terminate()
    assert await process.wait() == 0
    keys = [
        entry.key for entry in read_journal(tmp_path / "journal") if isinstance(entry, ShownMessage)
    ]
    assert keys == ["key-1", "key-2"]


async def test_a_person_can_watch_and_a_stranger_cannot_send(tmp_path):
    process = await started(tmp_path)
    (refused,) = await person(tmp_path, {"op": "send", "chat": "c", "text": "forged", "key": "k"})
    assert refused["error"] == "credentials"
    reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
    writer.write(b'{"op":"watch","n":1}\n')
    await reader.readline()
    adapter = adapter_of(tmp_path, str(tmp_path / "s"))
    await adapter.connect(Inbox().receive)
    sent = await adapter.send(ChatTarget("local", "c"), OutgoingMessage("hello"), "k")
    for text in ("hello", "hello", "hello, world"):
        await adapter.edit(ChatTarget("local", "c"), sent, OutgoingMessage(text))
    seen = [msgspec.json.decode(await reader.readline()) for _ in range(2)]
    assert [(news["op"], news["text"]) for news in seen] == [
        ("shown", "hello"),
        ("shown", "hello, world"),
    ], "what changes nothing is no news"
    writer.write(b"this is no JSON\n")
    assert await reader.read() == b""
    writer.close()
    await adapter.probe()
    await adapter.disconnect()
    process.terminate()
    await process.wait()


def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path):
    journal = tmp_path / "journal"
    room = ChatLog(journal)
    room.say(ServerRequest("say", chat="c", user="ann", text="whole"))
    room.close()
    with journal.open("ab") as file:
        file.write(b'{"op":"said","id":"in-2","ch')
    room = ChatLog(journal)
    assert [said.text for said in room.waiting["c"]] == ["whole"]
    room.close()


async def test_a_terminal_is_a_chat(tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ECHO, str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin and process.stdout
    async with asyncio.timeout(100):
        process.stdin.write(b"hello\n\n")
        assert await process.stdout.readuntil(b"indeed\n") == b"you said hello\n indeed\n"
        process.stdin.write(b"may I\n")
        shown = await process.stdout.readuntil(b"indeed\n[:1 Yes]\n")
        assert shown == b"you said may I\n[:1 Yes]\n indeed\n[:1 Yes]\n"
        process.stdin.write(b":1\n")
        assert await process.stdout.readuntil(b"indeed\n") == b"you said pressed-yes\n indeed\n"
        assert await process.wait() == 0


def test_a_killed_process_frees_its_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TokenInUse, match=f"process {holder.pid}, profile work"):
            acquire_scoped_lock("telegram", "a-token", tmp_path)
        holder.kill()
        holder.wait()
        release_scoped_lock(acquire_scoped_lock("telegram", "a-token", tmp_path))

"""A platform that a plugin brings, in a gateway that a script starts: all by documented names."""

import asyncio
from importlib import import_module

import pytest

from hermes import compat
from hermes.compat.platforms import unregister_platform
from hermes.core.errors import HermesError
from hermes.core.testing import ModelServer, echo

LONG = 100.0

PLUGIN = '''
import asyncio
import os

from gateway.platforms.base import BasePlatformAdapter, MessageEvent, SendResult, register_platform
from gateway.session import SessionSource


class Lines(BasePlatformAdapter):
    """People write lines `name: text` to a port of this machine."""

    async def connect(self):
        self.people = {}
        self.count = 0
        self.server = await asyncio.start_server(self.came, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return True

    async def disconnect(self):
        self.server.close()
        for writer in self.people.values():
            writer.close()
        await self.server.wait_closed()

    async def send_message(self, chat_id, text):
        self.people[chat_id].write(f"{text}\\n".encode())
        return SendResult(success=True)

    async def came(self, reader, writer):
        while line := (await reader.readline()).decode():
            name, _, text = line.strip().partition(": ")
            self.people[name] = writer
            self.count += 1
            source = SessionSource(platform="lines", chat_id=name, user_id=name, user_name=name)
            await self.handle_message(
                MessageEvent(text=text, source=source, message_id=str(self.count))
            )


def register(ctx):
    register_platform("lines", Lines, max_chars=200)
'''

CONFIG = """
model:
  provider: custom
  base_url: {url}/v1
  default: lab-model
sessions:
  auto_title: false
gateway:
  drain_seconds: 0
plugins:
  enabled: [lines]
"""


@pytest.fixture
def home(hermes_home, monkeypatch):
    folder = hermes_home / "plugins" / "lines"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: lines\nversion: 1.0.0\ndescription: lines\n")
    (folder / "__init__.py").write_text(PLUGIN)
    monkeypatch.setenv("LINES_ENABLED", "true")
    monkeypatch.setenv("LINES_ALLOWED_USERS", "anna")
    compat.install()
    with ModelServer(echo) as server:
        (hermes_home / "config.yaml").write_text(CONFIG.format(url=server.url))
        yield hermes_home
    compat.uninstall()
    unregister_platform("lines")


@pytest.fixture
async def port(home):
    runner = import_module("gateway.run").GatewayRunner()
    assert await runner.start()
    assert (home / "gateway.pid").is_file()
    async with asyncio.timeout(LONG):
        while "lines" not in runner.adapters:
            await asyncio.sleep(0.01)
    yield runner.adapters["lines"]._inner.port
    await runner.stop()
    assert not (home / "gateway.pid").exists()


async def test_a_platform_of_a_plugin_answers(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(LONG):
        writer.write(b"anna: hello there\n")
        assert b"hello there" in await reader.readline()
        writer.write(b"anna: /status\n")
        assert b"session" in (await reader.readline()).lower()
        writer.write(b"eve: let me in\n")
        assert b"hermes pairing approve lines" in await reader.readuntil(b"lines")
    writer.close()


async def test_one_gateway_runs_in_a_home(port):
    with pytest.raises(HermesError, match="running already"):
        await import_module("gateway.run").start_gateway()


async def test_with_nothing_set_up_there_is_nothing_to_run(hermes_home):
    with pytest.raises(HermesError, match="no platform is set up"):
        await import_module("hermes.compat.gateway").start_gateway()

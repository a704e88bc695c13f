"""A gateway in this process, on a platform in this process, with a scripted model."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.testing import ModelServer, echo
from hermes.gateway import outbox, runner, worker
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.runner import GatewayRunner
from hermes.gateway.supervisor import Patience, Supervisor
from hermes.sdk.platforms import MessageEvent
from tests.fakes.local.server import LocalServer, ShownMessage

LONG = 100.0
"""Seconds after which a missing event fails the test; long, since the machine may be busy."""
PAUSES = (
    (outbox, "RETRY_SECONDS", 0.02),
    (outbox, "MAX_RETRY_SECONDS", 0.1),
    (runner, "RETRY_SECONDS", 0.05),
    (runner, "Supervisor", partial(Supervisor, patience=Patience(first_pause=0.05))),
    (worker, "CLAIM_RETRY_SECONDS", 0.05),
)
"""Pauses before something is tried again, shortened for the tests."""


class GatewayHarness:
    """People on the platform, and the gateway they write to."""

    def __init__(self, home: Path, platform: LocalServer, servers: ExitStack) -> None:
        self.home, self.platform, self._servers = home, platform, servers
        self.runner: GatewayRunner | None = None
        self._server: ModelServer | None = None
        self.notes: list[str] = []  #: Messages of the gateway to its operator.
        self._task: asyncio.Task[int] | None = None

    @property
    def server(self) -> ModelServer:
        """The model server in use."""
        assert self._server is not None
        return self._server

    async def open(self, model: Any = None, **settings: Any) -> GatewayRunner:
        """Start the gateway; it is connected when this returns.

        `model` is a model server or the script of one. Without it, the last one is used again, or
        one that echoes.
        """
        if isinstance(model, ModelServer):
            self._server = model
        elif model is not None or self._server is None:
            script = echo if model is None else model
            self._server = self._servers.enter_context(ModelServer(script))
        overrides = {
            "model.provider": "custom", "model.base_url": f"{self.server.url}/v1",
            "model.default": "lab-model", "sessions.auto_title": False,
            "display.tool_progress": "off", "gateway.drain_seconds": 0,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }  # fmt: skip
        home = Home(self.home)
        runner = GatewayRunner(home, load(home, overrides), note=self.notes.append)
        self.runner, self._task = runner, asyncio.create_task(runner.run())
        async with asyncio.timeout(LONG):
            while not (hasattr(runner, "gateway") and runner.gateway.connections.get("local")):
                assert not self._task.done(), self._task.result()
                await asyncio.sleep(0.01)
        return runner

    async def close(self) -> int | None:
        if self.runner is None or self._task is None:
            return None
        self.runner.stop()
        code = await self._task
        self.runner = self._task = None
        return code

    async def wait_exit(self) -> int:
        """The exit code of a gateway that ends by itself."""
        assert self._task is not None
        async with asyncio.timeout(LONG):
            code = await self._task
        self.runner = self._task = None
        return code

    def say(self, text: str, user: str = "anna", chat: str = "", **more: Any) -> str:
        return self.platform.say(chat or user, user, text, **more).id

    def event(self, said: str) -> MessageEvent:
        """A message as the gateway receives it."""
        assert self.runner is not None
        adapter = self.runner.gateway.supervisors[0].adapter
        return adapter.connection.event(self.platform.log.said[said])

    def press(self, shown: ShownMessage, data: str, user: str = "anna") -> None:
        self.platform.press(shown.id, data, user)

    def shown(self, chat: str = "anna") -> list[ShownMessage]:
        return self.platform.shown(chat)

    def texts(self, chat: str = "anna") -> list[str]:
        return [each.text for each in self.shown(chat)]

    async def until(self, what: Callable[[], Any], about: str = "") -> Any:
        try:
            async with asyncio.timeout(LONG):
                while not (found := what()):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            seen = [(each.chat, each.text) for each in self.platform.shown()]
            pytest.fail(f"never happened: {about or what}; seen: {seen}")
        return found

    async def wait_for(self, text: str, chat: str = "anna", times: int = 1) -> ShownMessage:
        """Waits until a message holds `text`; the last that does."""

        def found() -> ShownMessage | None:
            holding = [each for each in self.shown(chat) if text in each.text]
            return holding[-1] if len(holding) >= times else None

        return await self.until(found, f"{text!r} in {chat}")

    async def ask(self, text: str, answer: str, user: str = "anna", chat: str = "") -> ShownMessage:
        self.say(text, user, chat)
        return await self.wait_for(answer, chat or user)

    async def begin(self, text: str, **more: Any) -> str:
        """Send a message, wait for the model to be called, and return the id of the message."""
        calls = len(self.server.calls)
        said = self.say(text, **more)
        await self.until(lambda: len(self.server.calls) > calls, "the call")
        return said

    def hold_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A turn is not over before everything that was said is kept."""
        assert self.runner is not None
        rebind = ChatSession.rebind

        async def late(session: ChatSession) -> None:
            await self.until(lambda: not any(self.platform.log.waiting.values()), "all is kept")
            await rebind(session)

        monkeypatch.setattr(ChatSession, "rebind", late)

    async def wait_idle(self) -> None:
        """Everything that came in is dealt with, everything that goes out is sent."""
        runner = self.runner
        assert runner is not None

        async def idle() -> bool:
            counts = await runner.gateway.store.queue_counts()
            return not any(each.waiting_in or each.waiting_out for each in counts)

        async with asyncio.timeout(LONG):
            while not await idle():
                await asyncio.sleep(0.02)


@pytest.fixture
async def harness(hermes_home, tmp_path, monkeypatch):
    for module, name, value in PAUSES:
        monkeypatch.setattr(module, name, value)
    platform = LocalServer()
    socket = tmp_path / "s"
    await platform.listen(socket)
    monkeypatch.setenv("LOCAL_SOCKET", str(socket))
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna,ben")
    with ExitStack() as servers:
        harness = GatewayHarness(hermes_home, platform, servers)
        yield harness
        await harness.close()
        await platform.close()

"""Turns for requests: finding or making the agent, running it, stopping it, keeping it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.core.errors import SessionNotFound
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Message, User
from hermes.gateway.direct import DirectTurns
from hermes.gateway.platforms.api_server.live import LiveAgents, session_key
from hermes.gateway.platforms.api_server.manifest import MANIFEST
from hermes.gateway.platforms.api_server.options import Options
from hermes.gateway.platforms.api_server.refusals import Refused, missing, retry_after

SOURCE = "api-server"
LEFT = "the client left"
SOON = 5.0
"""Seconds after which a client that was sent away may try again."""
STOP_SECONDS = 10.0
"""For a turn that was stopped."""


class Closed(Protocol):
    """Told that a turn is over."""

    def __call__(self, *, failed: bool) -> object: ...


class Ask(msgspec.Struct, frozen=True):
    """What is wanted of a turn."""

    message: User
    manner: str = ""
    """What the client says of how to answer; sent behind our system prompt, never stored."""
    key: str = ""
    """Under which a live agent may be found."""
    session_id: str = ""
    """The session to go on with."""
    history: tuple[Message, ...] = ()
    """What a new session begins with, when none is found."""


class Running:
    """One turn. Whoever has it must read its events to their end, or close it."""

    def __init__(self, turns: "Turns", ask: Ask) -> None:
        self._turns, self.ask = turns, ask
        self._agent: Agent | None = None
        self._stopped = ""
        self._closing: list[Closed] = []
        self._over = False
        self._keys: list[str] = []

    @property
    def agent(self) -> Agent:
        if self._agent is None:
            raise RuntimeError("the turn was not begun")
        return self._agent

    @property
    def session_id(self) -> str:
        return self.agent.session_id

    def adopt(self, agent: Agent) -> None:
        self._agent = agent
        agent.extra_system_prompt = self.ask.manner

    def on_close(self, do: "Closed") -> None:
        self._closing.append(do)

    def keep_as(self, *keys: str) -> None:
        """The conversation goes on under these, when the turn ends well."""
        self._keys += keys

    def stop(self, reason: str = LEFT) -> None:
        self._stopped = reason
        if self._agent is not None:
            self._agent.interrupt(reason)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The last one is `TurnFinished`; then the agent is kept or left."""
        end: TurnFinished | None = None
        try:
            async with aclosing(self.agent.run(self.ask.message)) as events:
                async for event in events:
                    if self._stopped:
                        self.agent.interrupt(self._stopped)
                    if isinstance(event, TurnFinished):
                        end = event
                    yield event
        finally:
            await self.close(end)

    async def finished(self, key_of: Callable[[TurnFinished], str]) -> TurnFinished:
        """The end, when nobody wants to know what happens until then."""
        end: TurnFinished | None = None
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    end = event
                    self.keep_as(key_of(end))
        if end is None:
            raise RuntimeError("a turn ended without its last event")
        return end

    async def close(self, end: TurnFinished | None = None) -> None:
        """May be called again."""
        if self._over:
            return
        self._over = True
        sound = end is not None and not end.error and not end.interrupted
        failed = end is None or (bool(end.error) and not end.interrupted)
        for do in self._closing:
            do(failed=failed)
        await self._turns.ended(self, self._agent, self._keys if sound else ())


class Turns:
    def __init__(
        self,
        app: App,
        options: Options,
        backend: str = "",
        counted: DirectTurns | None = None,
    ) -> None:
        """`backend` is where commands run, instead of that of the settings; `counted` hears of
        every turn."""
        self._app, self._options, self.backend = app, options, backend
        self._counted = counted
        gateway = app.loaded.settings.gateway
        self.live = LiveAgents(app.leave, gateway.live_agents)
        self._folder = Path(gateway.cwd).expanduser()
        self._running: dict[Running, str] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = ""

    @property
    def count(self) -> int:
        return len(self._running)

    async def begin(self, ask: Ask, on_gone: Callable[[Callable[[], None]], None]) -> Running:
        """A turn with its agent, ready to run. `on_gone` hears what stops it. Raises `Refused` and
        every error of making an agent."""
        if self._closing:
            message = "the server is stopping"
            raise Refused(503, message, code="stopping", headers=retry_after(SOON))
        if len(self._running) >= self._options.most_turns:
            message = "too many turns are running"
            raise Refused(503, message, code="overloaded", headers=retry_after(SOON))
        running = Running(self, ask)
        if self._counted is not None:
            running.on_close(self._counted.begin(MANIFEST.name).end)
        self._running[running] = ""
        self._idle.clear()
        on_gone(running.stop)
        try:
            running.adopt(await self._agent(running, ask))
        except BaseException:
            await running.close()
            raise
        self._running[running] = running.session_id
        return running

    async def _agent(self, running: Running, ask: Ask) -> Agent:
        slot = self.live.take(session_key(ask.session_id)) if ask.session_id else None
        if slot is None and ask.key:
            slot = self.live.take(ask.key)
        if slot is not None:
            running.keep_as(*[key for key in slot.keys if key.startswith(session_key(""))])
            if slot.agent is not None:
                return slot.agent
        session_id = slot.session_id if slot else ask.session_id
        if not session_id:
            return await self._made(history=ask.history)
        self._check_idle(session_id)
        self._running[running] = session_id
        try:
            return await self._made(resume=session_id)
        except SessionNotFound:
            if not ask.history:
                raise
            return await self._made(history=ask.history)  # somebody deleted it meanwhile

    async def _made(self, *, resume: str = "", history: Sequence[Message] = ()) -> Agent:
        return await self._app.agent(
            SessionRequest(
                self._folder,
                source=SOURCE,
                resume=resume,
                history=tuple(history),
                goes_on=False,  # a client that wants a title asks for one
                backend=self.backend,
            )
        )

    def busy(self, session_id: str) -> bool:
        """Whether a turn runs in it."""
        return session_id in self._running.values()

    async def check_session(self, session_id: str) -> None:
        """Raises `Refused` unless it is one that a client of the API began."""
        try:
            info = await self._app.store.info(session_id)
        except SessionNotFound:
            info = None
        if info is None or info.source != SOURCE:
            raise missing(f"there is no session {session_id}", "session_not_found")
        self._check_idle(session_id)

    def _check_idle(self, session_id: str) -> None:
        if self.busy(session_id):
            raise Refused(409, "a turn is already running in this session", code="session_busy")

    async def ended(self, running: Running, agent: Agent | None, keys: Sequence[str]) -> None:
        try:
            if agent is not None and keys and not self._closing:
                session_id = agent.session_id
                await self.live.keep(session_id, agent, (*keys, session_key(session_id)))
            elif agent is not None:
                await self._app.leave(agent)
        finally:
            del self._running[running]
            if not self._running:
                self._idle.set()

    async def drain(self, seconds: float) -> None:
        """No turn begins any more; those that run get so long to end, and are stopped then."""
        self._closing = "the server is stopping"
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for running in tuple(self._running):
                running.stop(self._closing)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._idle.wait()

    async def close(self) -> None:
        await self.live.close()

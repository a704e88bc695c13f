"""Turns for API requests: find or create the agent, run it, stop it, and keep it for the next
request."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.core.errors import SessionNotFound
from hermes.core.events import Event, TextFinished, TurnFinished, UsageReported
from hermes.core.messages import Aside, Image, Message, Text, ToolResult, User
from hermes.core.model import FellBack, Retrying, TextDelta
from hermes.gateway.platforms.api_server.http import Options, Refused, missing, retry_after
from hermes.gateway.platforms.api_server.manifest import MANIFEST
from hermes.gateway.status import DirectTurns

MOST_KNOWN = 4096
"""Maximum number of conversations whose session is remembered, with or without an open agent."""


class Slot:
    """A session that can continue, and its agent while that is open."""

    def __init__(self, session_id: str, agent: Agent | None, keys: tuple[str, ...]) -> None:
        self.session_id, self.agent, self.keys = session_id, agent, keys


class LiveAgents:
    """The most recently used agents.

    A caller that takes an agent owns it alone; a second request that continues from the same point
    gets none.
    """

    def __init__(self, leave: Callable[[Agent], Awaitable[None]], most: int) -> None:
        self._leave, self._most = leave, most
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._ready: OrderedDict[Slot, Agent] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._ready)

    def knows(self, key: str) -> bool:
        return key in self._slots

    def take(self, key: str) -> Slot | None:
        slot = self._slots.get(key)
        if slot is not None:
            self._remove(slot)
        return slot

    async def keep(self, session_id: str, agent: Agent, keys: Iterable[str]) -> None:
        """Keep an agent so that any of `keys` finds it. May close the least recently used one."""
        slot = Slot(session_id, agent, tuple(dict.fromkeys(keys)))
        left: list[Agent] = []
        for key in slot.keys:
            other = self._slots.get(key)
            if other is not None:
                self._remove(other)
                left += [other.agent] if other.agent else []
            self._slots[key] = slot
        self._ready[slot] = agent
        while len(self._ready) > self._most:
            oldest, unused = self._ready.popitem(last=False)
            oldest.agent = None
            left.append(unused)
        while len(self._slots) > MOST_KNOWN:
            self._remove(next(iter(self._slots.values())))
        for each in left:
            await self._leave(each)

    def _remove(self, slot: Slot) -> None:
        for key in slot.keys:
            if self._slots.get(key) is slot:
                del self._slots[key]
        self._ready.pop(slot, None)

    async def close(self) -> None:
        agents = list(self._ready.values())
        self._slots.clear()
        self._ready.clear()
        for agent in agents:
            await self._leave(agent)


def session_key(session_id: str) -> str:
    return f"session:{session_id}"


class Fingerprint:
    """Identifies a conversation by its content, whichever client sends it."""

    def __init__(self, *around: str) -> None:
        """`around` is what else must be equal."""
        self._hash = hashlib.sha256("\0".join(around).encode("utf-8", "replace"))

    def add(self, role: str, *said: str) -> None:
        # Many clients strip surrounding whitespace.
        parts = "\1".join([role, *(each.strip() for each in said)])
        self._hash.update(f"\0{len(parts)}:{parts}".encode("utf-8", "replace"))

    def added(self, messages: Sequence[Message]) -> "Fingerprint":
        for message in messages:
            self.add(message.role, *_said(message))
        return self

    def and_then(self, role: str, said: str) -> str:
        """Return the key of the conversation after one more message."""
        copy = Fingerprint()
        copy._hash = self._hash.copy()
        copy.add(role, said)
        return copy.key

    @property
    def key(self) -> str:
        return f"said:{self._hash.hexdigest()}"


def _said(message: Message) -> Iterator[str]:
    if isinstance(message, User):
        for part in message.parts:
            match part:
                case Image():
                    yield part.url
                case Aside():
                    pass
                case Text():
                    yield part.text
        return
    yield message.text
    if isinstance(message, ToolResult):
        yield message.call_id


SOURCE = "api-server"
LEFT = "the client left"
SOON = 5.0
"""Seconds for the Retry-After header."""
STOP_SECONDS = 10.0
"""Seconds that a stopped turn has to end."""


class Closed(Protocol):
    """Called when a turn is over."""

    def __call__(self, *, failed: bool) -> object: ...


class Ask(msgspec.Struct, frozen=True):
    """A requested turn."""

    message: User
    manner: str = ""
    """Instructions of the client; sent after the system prompt and never stored."""
    key: str = ""
    """Key under which an open agent may be found."""
    session_id: str = ""
    """The session to continue."""
    history: tuple[Message, ...] = ()
    """Initial history of a new session, if none is found."""


class Running:
    """One turn. The owner must read its events to the end, or close it."""

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
        """Keep the agent under these keys if the turn succeeds."""
        self._keys += keys

    def stop(self, reason: str = LEFT) -> None:
        self._stopped = reason
        if self._agent is not None:
            self._agent.interrupt(reason)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run the turn and yield its events; the last one is `TurnFinished`. Then the agent is
        kept or closed."""
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
        """Run the turn and return only its last event."""
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
        """End the turn. May be called again."""
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
        """`backend` is where commands run, instead of the one in the settings; `counted` counts
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
        """Create a turn with its agent, ready to run.

        `on_gone` registers the callback that stops the turn when the client leaves. Raises
        `Refused` and the errors of creating an agent.
        """
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
            return await self._made(history=ask.history)  # the session was deleted meanwhile

    async def _made(self, *, resume: str = "", history: Sequence[Message] = ()) -> Agent:
        return await self._app.agent(
            SessionRequest(
                self._folder,
                source=SOURCE,
                resume=resume,
                history=tuple(history),
                goes_on=False,  # clients that want a title ask for one
                backend=self.backend,
            )
        )

    def busy(self, session_id: str) -> bool:
        """Return whether a turn runs in the session."""
        return session_id in self._running.values()

    async def check_session(self, session_id: str) -> None:
        """Raise `Refused` unless the session was created by the API and is idle."""
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
        """Start no more turns. Running ones have `seconds` to finish, and are stopped then."""
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


GAP = "\n\n"
"""Separator between two replies of one turn."""


class Speech:
    """The text of a turn for a client that cannot remove what it has received.

    After a retry the model repeats its text: the part that is equal is not sent again; a different
    text is sent after what was already sent.
    """

    def __init__(self) -> None:
        self.text = ""
        """Everything that was sent."""
        self._reply = ""
        """The part of the current reply that was sent."""
        self._anew: str | None = None
        """The text since the reply was restarted; None if it was not."""
        self._due = ""
        """Separator to send before the next text."""

    def hear(self, event: Event) -> str:
        match event:
            case TextDelta():
                return self._delta(event.text)
            case Retrying() | FellBack():
                self._anew = ""
            case TextFinished():
                said = self._caught_up(event.text)
                self._reply, self._due = "", GAP
                return said
            case UsageReported() if event.finish_reason == "length":
                self._due = ""  # the next reply continues in the middle of a sentence
            case _:
                pass
        return ""

    def _delta(self, text: str) -> str:
        if self._anew is None:
            return self._more(text)
        self._anew += text
        return "" if self._reply.startswith(self._anew) else self._caught_up(self._anew)

    def _caught_up(self, whole: str) -> str:
        """Return what is missing if the reply is `whole` so far."""
        self._anew = None
        if whole.startswith(self._reply):
            return self._more(whole[len(self._reply) :])
        if self._reply.startswith(whole):
            return ""
        self._reply, self._due = "", GAP
        return self._more(whole)

    def _more(self, text: str) -> str:
        if not text:
            return ""
        sent = self._due + text
        self._due = ""
        self._reply += text
        self.text += sent
        return sent

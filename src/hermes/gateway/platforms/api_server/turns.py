"""Turns for API requests: find, run, stop and keep the agent."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from hermes.agent import Agent
from hermes.app import App, SessionRequest
from hermes.core.errors import SessionNotFound
from hermes.core.events import Event, TextFinished, TurnFinished, UsageReported
from hermes.core.messages import Aside, Image, Message, ToolResult, User
from hermes.core.model import FellBack, Retrying, TextDelta
from hermes.gateway.platforms.api_server.http import ApiError, ApiOptions, not_found, retry_after
from hermes.gateway.platforms.manifests import API_SERVER

MAX_KNOWN = 4096
"""Maximum number of conversations whose session is remembered, with or without an open agent."""


class KeptSession(msgspec.Struct, eq=False):
    """A session that can continue, and its agent while that is open."""

    session_id: str
    agent: Agent | None
    keys: tuple[str, ...]


class ApiAgentPool:
    """The most recently used agents. A caller that takes an agent owns it alone."""

    def __init__(self, leave: Callable[[Agent], Awaitable[None]], most: int) -> None:
        self._leave, self._most = leave, most
        self._sessions: OrderedDict[str, KeptSession] = OrderedDict()
        self._ready: OrderedDict[KeptSession, Agent] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._ready)

    def has(self, key: str) -> bool:
        return key in self._sessions

    def take(self, key: str) -> KeptSession | None:
        kept = self._sessions.get(key)
        if kept is not None:
            self._remove(kept)
        return kept

    async def keep(self, session_id: str, agent: Agent, keys: Iterable[str]) -> None:
        """Keep an agent so that any of `keys` finds it. May close the least recently used one."""
        kept = KeptSession(session_id, agent, tuple(dict.fromkeys(keys)))
        left: list[Agent] = []
        for key in kept.keys:
            other = self._sessions.get(key)
            if other is not None:
                self._remove(other)
                left += [other.agent] if other.agent else []
            self._sessions[key] = kept
        self._ready[kept] = agent
        while len(self._ready) > self._most:
            oldest, unused = self._ready.popitem(last=False)
            oldest.agent = None
            left.append(unused)
        while len(self._sessions) > MAX_KNOWN:
            self._remove(next(iter(self._sessions.values())))
        for each in left:
            await self._leave(each)

    def _remove(self, kept: KeptSession) -> None:
        for key in kept.keys:
            if self._sessions.get(key) is kept:
                del self._sessions[key]
        self._ready.pop(kept, None)

    async def close(self) -> None:
        self._sessions.clear()
        while self._ready:
            await self._leave(self._ready.popitem()[1])


def session_key(session_id: str) -> str:
    return f"session:{session_id}"


class ConversationDigest:
    """Identifies a conversation by its content, whichever client sends it."""

    def __init__(self, *context: str) -> None:
        """`context` is what else must be equal."""
        self._hash = hashlib.sha256("\0".join(context).encode("utf-8", "replace"))

    def add(self, role: str, *texts: str) -> None:
        # Many clients strip surrounding whitespace.
        parts = "\1".join([role, *(each.strip() for each in texts)])
        self._hash.update(f"\0{len(parts)}:{parts}".encode("utf-8", "replace"))

    def add_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.add(message.role, *_texts(message))

    def key_after(self, role: str, text: str) -> str:
        """Return the key of the conversation after one more message."""
        copy = ConversationDigest()
        copy._hash = self._hash.copy()
        copy.add(role, text)
        return copy.key

    @property
    def key(self) -> str:
        return f"said:{self._hash.hexdigest()}"


def _texts(message: Message) -> Iterator[str]:
    if not isinstance(message, User):
        yield message.text
        if isinstance(message, ToolResult):
            yield message.call_id
        return
    for part in message.parts:
        if isinstance(part, Image):
            yield part.url
        elif not isinstance(part, Aside):
            yield part.text


SOURCE = "api-server"
RETRY_SECONDS = 5.0  #: For the header `Retry-After`.
STOP_SECONDS = 10.0  #: Seconds that a stopped turn has to end.


class TurnRequest(msgspec.Struct, frozen=True):
    message: User
    instructions: str = ""
    """Instructions of the client; sent after the system prompt and never stored."""
    key: str = ""  #: Key under which an open agent may be found.
    session_id: str = ""  #: The session to continue.
    history: tuple[Message, ...] = ()  #: Initial history of a new session, if none is found.


class ApiTurn:
    """One turn. The owner must read its events to the end, or close it."""

    def __init__(self, turns: "ApiTurns", request: TurnRequest) -> None:
        self._turns, self.request = turns, request
        self.opened: Agent | None = None  #: Set by `ApiTurns.begin`.
        self._stop_reason = ""
        self._callbacks: list[Callable[[bool], object]] = []
        self._is_closed = False
        self._keys: list[str] = []

    @property
    def agent(self) -> Agent:
        if self.opened is None:
            raise RuntimeError("the turn was not begun")
        return self.opened

    @property
    def session_id(self) -> str:
        return self.agent.session_id

    def on_close(self, callback: Callable[[bool], object]) -> None:
        """Call back at the end of the turn, with whether it failed."""
        self._callbacks.append(callback)

    def keep_as(self, *keys: str) -> None:
        """Keep the agent under these keys if the turn succeeds."""
        self._keys += keys

    def stop(self, reason: str = "the client left") -> None:
        self._stop_reason = reason
        if self.opened is not None:
            self.opened.interrupt(reason)

    async def run(self, key_after: Callable[[TurnFinished], str]) -> TurnFinished:
        """Run the turn and return its end. Then keep or close the agent, as `events` does.

        `key_after` returns a key for `keep_as`. Without an iterator of events, a turn needs no task
        of its own.
        """
        end: TurnFinished | None = None

        def watch(event: Event) -> None:
            nonlocal end
            if self._stop_reason:
                self.agent.interrupt(self._stop_reason)
            if isinstance(event, TurnFinished):
                end = event
                self.keep_as(key_after(event))

        try:
            await self.agent.turn(self.request.message, watch)
        finally:
            await self.close(end)
        if end is None:
            raise RuntimeError("a turn ended without its last event")
        return end

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run the turn and yield its events up to `TurnFinished`. Then keep or close the agent."""
        end: TurnFinished | None = None
        try:
            async with aclosing(self.agent.run(self.request.message)) as events:
                async for event in events:
                    if self._stop_reason:
                        self.agent.interrupt(self._stop_reason)
                    if isinstance(event, TurnFinished):
                        end = event
                    yield event
        finally:
            await self.close(end)

    async def close(self, end: TurnFinished | None = None) -> None:
        """End the turn. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        has_failed = end is None or (bool(end.error) and not end.interrupted)
        for callback in self._callbacks:
            callback(has_failed)
        has_succeeded = end is not None and not end.error and not end.interrupted
        await self._turns.finish(self, self.opened, self._keys if has_succeeded else ())


class ApiTurns:
    def __init__(
        self,
        app: App,
        options: ApiOptions,
        backend: str = "",
        count_turn: Callable[[str], Callable[[bool], object]] | None = None,
    ) -> None:
        """`backend` is where commands run, instead of the one in the settings. `count_turn` is
        called at the start of each turn, and its result at the end."""
        self._app, self._options, self.backend = app, options, backend
        self._count_turn = count_turn
        gateway = app.loaded.settings.gateway
        self.agents = ApiAgentPool(app.leave, gateway.live_agents)
        self._folder = Path(gateway.cwd).expanduser()
        self._running: dict[ApiTurn, str] = {}  #: Turns and their session id.
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closing = False

    @property
    def count(self) -> int:
        return len(self._running)

    async def begin(
        self,
        request: TurnRequest,
        on_disconnect: Callable[[Callable[[], None]], None] = lambda _callback: None,
    ) -> ApiTurn:
        """Create a turn with its agent, ready to run.

        `on_disconnect` registers the callback that stops the turn when the client leaves. Raises
        `ApiError` and the errors of creating an agent.
        """
        headers = retry_after(RETRY_SECONDS)
        if self._is_closing:
            raise ApiError(503, "the server is stopping", code="stopping", headers=headers)
        if len(self._running) >= self._options.max_turns:
            raise ApiError(503, "too many turns are running", code="overloaded", headers=headers)
        turn = ApiTurn(self, request)
        if self._count_turn is not None:
            turn.on_close(self._count_turn(API_SERVER.name))
        self._running[turn] = ""
        self._idle.clear()
        on_disconnect(turn.stop)
        try:
            turn.opened = agent = await self._find_agent(turn)
            agent.extra_system_prompt = request.instructions
        except BaseException:
            await turn.close()
            raise
        self._running[turn] = turn.session_id
        return turn

    async def _find_agent(self, turn: ApiTurn) -> Agent:
        request = turn.request
        kept = self.agents.take(session_key(request.session_id)) if request.session_id else None
        if kept is None and request.key:
            kept = self.agents.take(request.key)
        if kept is not None:
            turn.keep_as(*[key for key in kept.keys if key.startswith(session_key(""))])
            if kept.agent is not None:
                return kept.agent
        session_id = kept.session_id if kept else request.session_id
        if not session_id:
            return await self._create_agent(history=request.history)
        self._check_idle(session_id)
        self._running[turn] = session_id
        try:
            return await self._create_agent(resume=session_id)
        except SessionNotFound:
            if not request.history:
                raise
            # The session was deleted meanwhile.
            return await self._create_agent(history=request.history)

    async def _create_agent(self, *, resume: str = "", history: Sequence[Message] = ()) -> Agent:
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

    def is_busy(self, session_id: str) -> bool:
        return session_id in self._running.values()

    async def check_session(self, session_id: str) -> None:
        """Raise `ApiError` unless the session was created by the API and is idle."""
        try:
            info = await self._app.store.info(session_id)
        except SessionNotFound:
            info = None
        if info is None or info.source != SOURCE:
            raise not_found(f"there is no session {session_id}", "session_not_found")
        self._check_idle(session_id)

    def _check_idle(self, session_id: str) -> None:
        if self.is_busy(session_id):
            raise ApiError(409, "a turn is already running in this session", code="session_busy")

    async def finish(self, turn: ApiTurn, agent: Agent | None, keys: Sequence[str]) -> None:
        """Keep or close the agent of a turn that has ended."""
        try:
            if agent is not None and keys and not self._is_closing:
                session_id = agent.session_id
                await self.agents.keep(session_id, agent, (*keys, session_key(session_id)))
            elif agent is not None:
                await self._app.leave(agent)
        finally:
            del self._running[turn]
            if not self._running:
                self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Start no more turns. Running ones have `seconds` to finish, and are stopped then."""
        self._is_closing = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for turn in tuple(self._running):
                turn.stop("the server is stopping")
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._idle.wait()

    async def close(self) -> None:
        await self.agents.close()


SEPARATOR = "\n\n"  #: Separator between two replies of one turn.


class AppendOnlyText:
    """The text of a turn for a client that cannot remove what it has received: what the model
    repeats after a retry is not sent again, and a different text follows what was sent."""

    def __init__(self) -> None:
        self.text = ""  #: Everything that was sent.
        self._reply = ""  #: The part of the current reply that was sent.
        self._restarted: str | None = None
        """The text since the reply was restarted; None if it was not."""
        self._gap = ""  #: Separator to send before the next text.

    def feed(self, event: Event) -> str:
        match event:
            case TextDelta():
                return self._delta(event.text)
            case Retrying() | FellBack():
                self._restarted = ""
            case TextFinished():
                piece = self._catch_up(event.text)
                self._reply, self._gap = "", SEPARATOR
                return piece
            case UsageReported() if event.finish_reason == "length":
                self._gap = ""  # the next reply continues in the middle of a sentence
            case _:
                pass
        return ""

    def _delta(self, text: str) -> str:
        if self._restarted is None:
            return self._append(text)
        self._restarted += text
        return "" if self._reply.startswith(self._restarted) else self._catch_up(self._restarted)

    def _catch_up(self, whole: str) -> str:
        """Return what is missing if the reply is `whole` so far."""
        self._restarted = None
        if whole.startswith(self._reply):
            return self._append(whole[len(self._reply) :])
        if self._reply.startswith(whole):
            return ""
        self._reply, self._gap = "", SEPARATOR
        return self._append(whole)

    def _append(self, text: str) -> str:
        if not text:
            return ""
        sent = self._gap + text
        self._gap = ""
        self._reply += text
        self.text += sent
        return sent

"""Turns for API requests: find, run, stop and keep the agent."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from hermes.agent import Agent
from hermes.app import App, SessionRequest, latest_session
from hermes.core.errors import SessionNotFound
from hermes.core.events import Event, TextFinished, TurnFinished, UsageReported
from hermes.core.messages import Aside, Image, Message, ToolResult, User
from hermes.core.model import FellBack, Retrying, TextDelta
from hermes.gateway.hooks import HookRegistry, TurnEvents, about
from hermes.gateway.leases import POLL_SECONDS, Leases
from hermes.gateway.platforms.api_server.http import ApiError, ApiOptions, not_found, retry_after
from hermes.gateway.platforms.manifests import API_SERVER
from hermes.gateway.session_keys import build_session_key
from hermes.gateway.status import TurnOutcome
from hermes.sdk.platforms import SessionSource
from hermes.store import ChatLease, under_lease

logger = logging.getLogger(__name__)

MAX_KNOWN = 4096
"""Maximum number of conversations whose session is remembered, with or without an open agent."""


class KeptSession(msgspec.Struct, eq=False):
    """A session that can continue, and its agent while that is open."""

    session_id: str
    agent: Agent | None
    keys: tuple[str, ...]
    version: tuple[int, int] = (0, 0)
    """Version of the stored session that the agent knows; only with a shared store."""


class ApiAgentPool:
    """The most recently used agents. A caller that takes an agent owns it alone.

    An agent that has to go is closed in the background: the request for which it makes room belongs
    to another client.
    """

    def __init__(self, leave: Callable[[Agent], Awaitable[None]], most: int) -> None:
        self._leave, self._most = leave, most
        self._closing: dict[str, asyncio.Task[None]] = {}  #: By session id.
        self._sessions: OrderedDict[str, KeptSession] = OrderedDict()
        self._ready: OrderedDict[KeptSession, Agent] = OrderedDict()

    @property
    def count(self) -> int:
        return len(self._ready)

    def get(self, key: str) -> KeptSession | None:
        return self._sessions.get(key)

    def take(self, key: str) -> KeptSession | None:
        kept = self._sessions.get(key)
        if kept is not None:
            self._remove(kept)
        return kept

    def keep(
        self,
        session_id: str,
        agent: Agent,
        keys: Iterable[str],
        version: tuple[int, int] = (0, 0),
    ) -> None:
        """Keep an agent so that any of `keys` finds it. May close the least recently used one."""
        kept = KeptSession(session_id, agent, tuple(dict.fromkeys(keys)), version)
        for key in kept.keys:
            other = self._sessions.get(key)
            if other is not None:
                self._remove(other)
                if other.agent is not None:
                    self._close_agent(other.session_id, other.agent)
            self._sessions[key] = kept
        self._ready[kept] = agent
        while len(self._ready) > self._most:
            oldest, unused = self._ready.popitem(last=False)
            oldest.agent = None
            self._close_agent(oldest.session_id, unused)
        while len(self._sessions) > MAX_KNOWN:
            self._remove(next(iter(self._sessions.values())))

    def _close_agent(self, session_id: str, agent: Agent) -> None:
        earlier = self._closing.get(session_id)

        async def close() -> None:
            try:
                if earlier is not None:
                    await asyncio.wait((earlier,))
                await self._leave(agent)
            except Exception:
                logger.exception("the agent of a session could not be closed")
            finally:
                if self._closing.get(session_id) is task:
                    del self._closing[session_id]

        task = self._closing[session_id] = asyncio.create_task(close())

    async def wait_closed(self, session_id: str) -> None:
        """Wait until no agent of the session is being closed."""
        if closing := self._closing.get(session_id):
            await asyncio.wait((closing,))

    def _remove(self, kept: KeptSession) -> None:
        for key in kept.keys:
            if self._sessions.get(key) is kept:
                del self._sessions[key]
        self._ready.pop(kept, None)

    async def close(self) -> None:
        self._sessions.clear()
        while self._ready:
            kept, agent = self._ready.popitem()
            self._close_agent(kept.session_id, agent)
        if self._closing:
            await asyncio.wait(self._closing.values())


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
CLIENT_LEFT = "the client left"
STOP_SECONDS = 10.0  #: Seconds that a stopped turn has to end.


class TurnRequest(msgspec.Struct, frozen=True):
    message: User
    instructions: str = ""
    """Instructions of the client; sent after the system prompt and never stored."""
    key: str = ""  #: Key under which an open agent may be found.
    session_id: str = ""  #: The session to continue.
    history: tuple[Message, ...] = ()  #: Initial history of a new session, if none is found.


class ApiClaim:
    """The right to run turns in a session or in a named conversation. Only one turn on all servers
    that share a store has it."""

    def __init__(self, name: str, lock: asyncio.Lock, lease: ChatLease | None) -> None:
        self.name, self.lock, self.lease = name, lock, lease


class ApiTurn:
    """One turn. The owner must read its events to the end, or close it."""

    def __init__(self, turns: "ApiTurns", request: TurnRequest) -> None:
        self._turns, self.request = turns, request
        self.opened: Agent | None = None  #: Set by `ApiTurns.begin`.
        self._stop_reason = ""
        self._callbacks: list[Callable[[TurnOutcome], object]] = []
        self._is_closed = False
        self._keys: list[str] = []
        self.hooks: TurnEvents | None = None  #: Set by `ApiTurns.begin` if there are hooks.
        self.claims: list[ApiClaim] = []  #: Released at the end of the turn.
        self.lease: ChatLease | None = None  #: The lease of its session, if the store is shared.

    @property
    def agent(self) -> Agent:
        if self.opened is None:
            raise RuntimeError("the turn was not begun")
        return self.opened

    @property
    def session_id(self) -> str:
        return self.agent.session_id

    def on_close(self, callback: Callable[[TurnOutcome], object]) -> None:
        """Call back at the end of the turn, with its outcome."""
        self._callbacks.append(callback)

    def keep_as(self, *keys: str) -> None:
        """Keep the agent under these keys if the turn succeeds."""
        self._keys += keys

    @property
    def is_stopped(self) -> bool:
        return bool(self._stop_reason)

    def stop(self, reason: str = CLIENT_LEFT) -> None:
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
            if self.hooks is None:
                with under_lease(self.lease):
                    await self.agent.turn(self.request.message, watch)
            else:
                async with aclosing(self.events()) as events:
                    async for event in events:
                        watch(event)
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
                while True:
                    # Not across the `yield`: the reader of the events has a context of its own.
                    with under_lease(self.lease):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if self._stop_reason:
                        self.agent.interrupt(self._stop_reason)
                    if isinstance(event, TurnFinished):
                        end = event
                    if self.hooks is not None:
                        await self.hooks.see(event)
                    yield event
        finally:
            await self.close(end)

    async def close(self, end: TurnFinished | None = None) -> None:
        """End the turn. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        outcome: TurnOutcome = "failed" if end is None or end.failed else "ok"
        if self._stop_reason == CLIENT_LEFT and (end is None or end.interrupted):
            outcome = "client_left"
            logger.info("the client left, and its turn was stopped")
        for callback in self._callbacks:
            callback(outcome)
        has_succeeded = end is not None and not end.error and not end.interrupted
        await self._turns.finish(self, self.opened, self._keys if has_succeeded else ())


class ApiTurns:
    def __init__(
        self,
        app: App,
        options: ApiOptions,
        backend: str = "",
        count_turn: Callable[[str], Callable[[TurnOutcome], object]] | None = None,
        *,
        hooks: HookRegistry | None = None,
        leases: Leases | None = None,
    ) -> None:
        """`backend` is where commands run, instead of the one in the settings. `count_turn` is
        called at the start of each turn, and its result at the end. `hooks` are called for the
        events of sessions and turns. `leases` are those of the gateway, which coordinate servers
        that share a store."""
        self._app, self._options, self.backend = app, options, backend
        self._count_turn = count_turn
        self._leases = leases if leases is not None and leases.shared else None
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        gateway = app.loaded.settings.gateway
        self._hooks = hooks or HookRegistry()
        self.agents = ApiAgentPool(self._leave, gateway.live_agents)
        self._folder = Path(gateway.cwd).expanduser()
        self._running: set[ApiTurn] = set()
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
        claims: Sequence[ApiClaim] = (),
    ) -> ApiTurn:
        """Create a turn with its agent, ready to run.

        `on_disconnect` registers the callback that stops the turn when the client leaves. The turn
        owns `claims` from now on, also if this fails; the last one may be that of its session.
        Without it, this waits until no other turn runs in the session. Raises `ApiError` and the
        errors of creating an agent.
        """
        turn = ApiTurn(self, request)
        turn.claims += claims
        headers = retry_after(RETRY_SECONDS)
        try:
            if self._is_closing:
                raise ApiError(503, "the server is stopping", code="stopping", headers=headers)
            if len(self._running) >= self._options.max_turns:
                raise ApiError(
                    503, "too many turns are running", code="overloaded", headers=headers
                )
        except ApiError:
            await self.release(turn.claims)
            raise
        if self._count_turn is not None:
            turn.on_close(self._count_turn(API_SERVER.name))
        self._running.add(turn)
        self._idle.clear()
        on_disconnect(turn.stop)
        try:
            turn.opened = agent = await self._find_agent(turn)
            agent.extra_system_prompt = request.instructions
            if self._hooks.hooks:
                message = {"message": request.message.text}
                turn.hooks = TurnEvents(self._hooks, _hook_facts(agent) | message)
        except BaseException:
            await turn.close()
            raise
        return turn

    async def claim_conversation(self, name: str) -> ApiClaim:
        """Claim a named conversation, after the turns that run in it. Raises `ApiError`."""
        claim = await self._claim("conversation", name, self._options.wait_seconds)
        if claim is None:
            raise _busy(f"a turn is still running in the conversation {name[:200]}")
        return claim

    async def claim_session(self, session_id: str, seconds: float = 0.0) -> ApiClaim | None:
        """Claim the newest session that continues `session_id`, and wait for at most `seconds`
        while a turn runs in it; return None then. Raises `SessionNotFound`."""
        while self._leases is not None:
            newest = await latest_session(self._app.store, session_id)
            claim = await self._claim("session", newest, seconds)
            # The turn that was waited for may have compacted the session.
            if claim is None or await latest_session(self._app.store, newest) == newest:
                return claim
            await self.release([claim])
        return await self._claim("session", session_id, seconds)

    async def _claim(self, kind: str, name: str, seconds: float) -> ApiClaim | None:
        lock = self._locks.setdefault((kind, name), asyncio.Lock())
        is_queued = lock.locked()
        deadline = self._app.clock.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                await lock.acquire()
        except TimeoutError:
            return None
        if self._leases is None:
            return ApiClaim(name, lock, None)
        lease = None
        try:
            if is_queued:  # a request that waits on another server comes first
                await self._app.clock.sleep(2 * POLL_SECONDS)
            left = deadline - self._app.clock.monotonic()
            lease = await self._leases.wait(kind, name, left)
        finally:
            if lease is None:
                lock.release()
        return ApiClaim(name, lock, lease) if lease else None

    async def release(self, claims: list[ApiClaim]) -> None:
        while claims:
            claim = claims.pop()
            if claim.lease is not None and self._leases is not None:
                await self._leases.release(claim.lease)
            claim.lock.release()

    async def is_current(self, kept: KeptSession) -> bool:
        """Return whether no other server has changed a session since its agent was kept."""
        if self._leases is None:
            return True
        return kept.version == await self._app.store.version(kept.session_id)

    async def _find_agent(self, turn: ApiTurn) -> Agent:
        request = turn.request
        kept, claim = await self._take(turn)
        session_id = claim.name if claim else ""
        if kept is not None and self._leases is None and claim is not None:
            session_id = kept.session_id  # the one asked for may have been compacted to it
        if kept is not None and claim is not None and kept.session_id == session_id:
            turn.keep_as(*[key for key in kept.keys if key.startswith(session_key(""))])
            if kept.agent is not None and await self.is_current(kept):
                turn.lease = claim.lease
                return kept.agent
        if kept is not None and kept.agent is not None:
            await self._app.leave(kept.agent)  # another server has the newer history
        if session_id:
            await self.agents.wait_closed(session_id)
        try:
            agent = await self._create_agent(resume=session_id, history=request.history)
        except SessionNotFound:
            if not request.history:
                raise
            # The session was deleted meanwhile.
            agent = await self._create_agent(history=request.history)
        if claim is None or agent.session_id != session_id:
            claim = await self._claim("session", agent.session_id, 0.0)
            turn.claims += [claim] if claim else []
        turn.lease = claim.lease if claim else None
        return agent

    async def _take(self, turn: ApiTurn) -> tuple[KeptSession | None, ApiClaim | None]:
        """Return the session that a turn continues, if it was kept here, and the claim of it."""
        request, claim = turn.request, None
        if request.session_id:
            claim = turn.claims[-1] if turn.claims else None
            claim = claim or await self._wait_for_session(turn, request.session_id)
            kept = self.agents.take(session_key(request.session_id))
            return kept or self.agents.take(session_key(claim.name)), claim
        kept = self.agents.take(request.key) if request.key else None
        if kept is not None:
            with suppress(SessionNotFound):  # it was deleted meanwhile
                claim = await self.claim_session(kept.session_id, RETRY_SECONDS)
                turn.claims += [claim] if claim else []
        return kept, claim

    async def _wait_for_session(self, turn: ApiTurn, session_id: str) -> ApiClaim:
        claim = await self.claim_session(session_id, self._options.wait_seconds)
        if claim is None:
            raise _busy("a turn is still running in this session, here or on another server")
        turn.claims.append(claim)
        if turn.is_stopped:
            raise ApiError(400, "the client left")
        return claim

    async def _create_agent(self, *, resume: str = "", history: Sequence[Message] = ()) -> Agent:
        agent = await self._app.agent(
            SessionRequest(
                self._folder,
                source=SOURCE,
                resume=resume,
                history=() if resume else tuple(history),
                goes_on=False,  # clients that want a title ask for one
                backend=self.backend,
            )
        )
        if not resume:
            facts = {**_hook_facts(agent), "session_id": agent.session_id}
            await self._hooks.fire("session:start", **facts)
        return agent

    async def _leave(self, agent: Agent) -> None:
        """Close an agent. That is the end of its session, unless a client continues it later."""
        facts = {**_hook_facts(agent), "session_id": agent.session_id}
        await self._app.leave(agent)
        await self._hooks.fire("session:end", **facts)

    async def check_session(self, session_id: str) -> None:
        """Raise `ApiError` unless the session was created by the API."""
        try:
            info = await self._app.store.info(session_id)
        except SessionNotFound:
            info = None
        if info is None or info.source != SOURCE:
            raise not_found(f"there is no session {session_id}", "session_not_found")

    async def finish(self, turn: ApiTurn, agent: Agent | None, keys: Sequence[str]) -> None:
        """Keep or close the agent of a turn that has ended."""
        try:
            if agent is not None and keys and not self._is_closing:
                session_id, store = agent.session_id, self._app.store
                version = await store.version(session_id) if self._leases else (0, 0)
                self.agents.keep(session_id, agent, (*keys, session_key(session_id)), version)
            elif agent is not None:
                await self._leave(agent)
        finally:
            self._running.discard(turn)
            if not self._running:
                self._idle.set()
            await self.release(turn.claims)

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


def _hook_facts(agent: Agent) -> dict[str, object]:
    """Return the facts that every hook event of a session has. A session is a chat of its own."""
    source = SessionSource(API_SERVER.name, agent.session_id)
    return about(source, build_session_key(source))


def _busy(message: str) -> ApiError:
    return ApiError(409, message, code="session_busy", headers=retry_after(RETRY_SECONDS))


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

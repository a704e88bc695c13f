"""A model that is an agent program on this machine."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import (
    ModelNotFound,
    ProviderError,
    ReplyInvalid,
    StreamCut,
    StreamStalled,
    UnicodeRefused,
)
from hermes.core.model import ModelEvent, ModelRequest
from hermes.providers.acp.agent import Agent, AgentLost
from hermes.providers.acp.agents import AcpAgents
from hermes.providers.acp.failing import reply_error
from hermes.providers.acp.prompt import prompt_blocks
from hermes.providers.acp.protocol import NewSession, TurnEnd
from hermes.providers.acp.reply import AgentReply
from hermes.providers.acp.rpc import RpcError
from hermes.providers.target import Target
from hermes.providers.wire.watch import Watch

DEFAULT_MODEL = "default"
"""The agent's own choice."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class AcpModel:
    """A `Model` over the Agent Client Protocol. The program is kept by the owner of `agents`.

    Each call is a session of its own and sends the whole conversation again, as the other wires
    do; nothing that happened on the agent's side can leak from one call into the next. The price:
    what the agent puts in front (its own system prompt) is paid with every call, the provider may
    cache less of it, and agents that keep a history list a session for each call.

    The agent decides about the length, the temperature and the effort: the protocol has no word
    for them, so these fields of a request have no effect.
    """

    def __init__(self, target: Target, agents: AcpAgents) -> None:
        self._target, self._agents = target, agents

    @property
    def name(self) -> str:
        return self._target.model

    @property
    def provider(self) -> str:
        return self._target.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        limits = self._target.timeouts
        stale = limits.stale if request.stream else limits.request
        reply = AgentReply(self._target, request)
        try:
            with Watch(self.provider, limits.request, stale) as watch:
                async with aclosing(self._turn(request, reply)) as updates:
                    async for update in updates:
                        deltas = reply.take(update)
                        if not deltas:
                            continue
                        watch.news()
                        for delta in deltas if request.stream else ():
                            if not delta.text:
                                continue
                            watch.pause()
                            yield delta
                            watch.resume()
        except StreamStalled:
            # It may hang for good, and then every other call with it.
            self._agents.drop("stopped answering and was killed")
            raise
        *last, whole = reply.end()
        for event in (*last, whole) if request.stream else (whole,):
            yield event

    async def _turn(self, request: ModelRequest, reply: AgentReply) -> AsyncGenerator[Any, None]:
        """The updates of one prompt; how it ended is told to `reply`."""
        agent = await self._soon(self._agents.ready(), request)
        try:
            session = await self._soon(self._session(agent), request)
            blocks = prompt_blocks(request, images=agent.abilities.images)
            reply.prompted(blocks, copilot=agent.abilities.is_copilot)
            asking = agent.rpc.begin("session/prompt", {"sessionId": session, "prompt": blocks})
            came: asyncio.Queue[Any] = asyncio.Queue()
            asking.add_done_callback(came.put_nowait)
            agent.follow(session, came.put_nowait)
            unfinished = True
            try:
                while (update := await self._soon(came.get(), request)) is not asking:
                    yield update
                unfinished = False
                reply.ended(msgspec.convert(asking.result(), TurnEnd))
            finally:
                asking.cancel()
                agent.leave(session, unfinished=unfinished)
        except (RpcError, AgentLost, msgspec.ValidationError, UnicodeEncodeError) as error:
            raise self._failure(agent, error) from error

    async def _session(self, agent: Agent) -> str:
        """A new session with the model the target names, as far as the agent lets us choose."""
        params = {"cwd": str(agent.folder), "mcpServers": []}
        session = msgspec.convert(await agent.rpc.request("session/new", params), NewSession)
        choice, wanted = session.model_choice(), self._target.model
        if wanted in ("", DEFAULT_MODEL):
            return session.session_id
        if choice is None:
            _log.info("%s lets nobody choose a model; %s is not asked for", agent.name, wanted)
        elif wanted in choice.models:
            fields = {"sessionId": session.session_id, **choice.fields, choice.key: wanted}
            await agent.rpc.request(choice.method, fields)
        else:
            raise ModelNotFound(
                f"{agent.name} does not offer the model {wanted}",
                provider=self.provider,
                hint=f"it offers {', '.join([DEFAULT_MODEL, *choice.models])}",
            )
        return session.session_id

    async def _soon(self, waiting: Awaitable[_T], request: ModelRequest) -> _T:
        """What comes within the longest silence that is allowed."""
        limits = self._target.timeouts
        seconds = limits.read if request.stream else limits.silence
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            raise StreamStalled(
                f"{self.provider} sent nothing for {seconds:g} s",
                provider=self.provider,
                hint="try again; `timeouts` in config.yaml holds the limits",
            ) from None

    def _failure(self, agent: Agent, error: Exception) -> ProviderError:
        match error:
            case RpcError():
                return reply_error(self.provider, agent, error)
            case AgentLost():
                return StreamCut(str(error), provider=self.provider)
            case UnicodeEncodeError():
                told = f"the conversation contains characters that cannot be sent: {error.reason}"
                return UnicodeRefused(told, provider=self.provider)
            case _:
                told = f"{agent.name} sent an answer that cannot be read: {error}"
                return ReplyInvalid(told, provider=self.provider)

"""A model that is an agent program on this machine."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import (
    CredentialRefused,
    ModelNotFound,
    ProviderError,
    ReplyInvalid,
    StreamCut,
    StreamStalled,
    UnicodeRefused,
)
from hermes.core.messages import Text, Thinking
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from hermes.core.openai_format import made_call_id
from hermes.core.usage import Usage
from hermes.providers.acp.process import AgentExited, AgentPool, AgentProcess, agent_error
from hermes.providers.acp.protocol import (
    ContentBlock,
    NewSessionResult,
    ParsedCall,
    SessionUpdate,
    TokenCounts,
    ToolCallSplitter,
    TurnEnd,
    prompt_blocks,
)
from hermes.providers.acp.rpc import RpcError
from hermes.providers.failures import failed_in_stream
from hermes.providers.target import Target
from hermes.providers.wire.codec import ReplyBuilder, content_refused, token_count
from hermes.providers.wire.model import StallTimer

# What the Copilot CLI says itself among the words of its model.
#
# It ends a turn in good order whatever happened, and tells of failures in a chunk of text of their
# own: `Error: 402 Insufficient credits`, `Info: Operation cancelled by user`. Taken for an answer
# of the model, a spent quota would look like a reply.

_NOTICE = re.compile(r"(Info|Warning|Error): (\S.*)", re.DOTALL)
_STATUS = re.compile(r"(?:^|HTTP |Last error: )([45]\d\d)\b")
_TOOL_REFUSED = "Operation cancelled by user"
"""Its model called a tool of its own, and we refused."""


class CopilotNotice(msgspec.Struct, frozen=True):
    kind: str
    text: str

    def trouble(self, provider: str) -> ProviderError | None:
        """The error it tells of, should the turn end with it; None when it is only news."""
        if self.text == _TOOL_REFUSED:
            return ReplyInvalid(
                f"{provider} tried to use a tool of its own instead of one of Hermes",
                provider=provider,
                hint="try again; `--available-tools=none` in HERMES_COPILOT_ACP_ARGS takes its"
                " tools away",
            )
        if self.kind != "Error":
            return None
        told: dict[str, object] = {"message": self.text}
        if status := _STATUS.search(self.text):
            told["status"] = int(status[1])
        error = failed_in_stream(provider, told)
        if isinstance(error, CredentialRefused):
            error.hint = "log in with that program: run `copilot login`"
        return error


def parse_notice(chunk: str) -> CopilotNotice | None:
    found = _NOTICE.fullmatch(chunk)
    return CopilotNotice(found[1], found[2].strip()) if found else None


# From the updates of one prompt to a reply.

CHARACTERS_PER_TOKEN = 4
"""For the estimate of what an agent does not count for us."""

_FINISH = {"max_turn_requests": "length"}
"""It ended for its own limit of model calls: what came is a part."""


class AgentReplyReader:
    """Takes updates as they come, and makes the reply once the turn has ended."""

    def __init__(self, target: Target, request: ModelRequest) -> None:
        self._target, self._request = target, request
        self._splitter = ToolCallSplitter() if request.tools else None
        self._said: list[str] = []
        self._thought: list[str] = []
        self._copilot = False
        self._trouble: ProviderError | None = None
        self._prompt_size = 0
        self._reply_size = 0
        self._end: TurnEnd | None = None

    def prompted(self, blocks: Sequence[dict[str, Any]], *, copilot: bool) -> None:
        """What was sent, for the estimate, and to whom."""
        self._copilot = copilot
        self._prompt_size = sum(len(block.get("text", "")) for block in blocks)

    def ended(self, end: TurnEnd) -> None:
        self._end = end

    def take(self, raw: Any) -> list[TextDelta | ReasoningDelta]:
        """The deltas in an update, none when it is about something else.

        An empty delta is news as well: a call is being written.
        """
        try:
            update = msgspec.convert(raw, SessionUpdate)
            if update.session_update not in ("agent_message_chunk", "agent_thought_chunk"):
                return []
            text = msgspec.convert(update.content, ContentBlock).text or ""
        except msgspec.ValidationError:
            return []
        if not text:
            return []
        if self._copilot and (notice := parse_notice(text)):
            self._trouble = notice.trouble(self._target.provider)
            return []
        self._trouble = None
        self._reply_size += len(text)
        if update.session_update == "agent_thought_chunk":
            self._thought.append(text)
            return [ReasoningDelta(text)]
        return [self._say(self._splitter.feed(text) if self._splitter else text)]

    def end(self) -> list[ModelEvent]:
        """The last deltas and the `Reply`."""
        end, provider = self._end, self._target.provider
        if end is None or end.stop_reason == "cancelled":
            raise StreamCut(f"{provider} broke the reply off", provider=provider)
        if self._trouble is not None:
            raise self._trouble
        rest, calls = self._splitter.end() if self._splitter else ("", [])
        last = self._say(rest)
        text = "".join(self._said)
        if end.stop_reason == "refusal":
            raise content_refused(provider, text)
        draft = ReplyBuilder(self._target)
        if self._thought:
            draft.add(Thinking("".join(self._thought)))
        if text:
            draft.add(Text(text))
        for position, call in enumerate(calls):
            self._add_call(draft, position, call)
        finish = _FINISH.get(end.stop_reason, end.stop_reason)
        return [*([last] if last.text else []), draft.finished(finish, self._usage(end.usage))]

    def _say(self, text: str) -> TextDelta:
        if text:
            self._said.append(text)
        return TextDelta(text)

    def _add_call(self, draft: ReplyBuilder, position: int, call: ParsedCall) -> None:
        if not call.name:
            raise ReplyInvalid(
                f"{self._target.provider} wrote a call that names no tool",
                provider=self._target.provider,
                body=call.arguments[:200],
            )
        place = f"{position} {call.name}"
        made = made_call_id(place, call.arguments, len(self._request.messages))
        draft.add_call(made, call.name, call.arguments)

    def _usage(self, told: TokenCounts | None) -> Usage:
        """What the agent counted, else an estimate."""
        if told is None:
            size = CHARACTERS_PER_TOKEN
            return Usage(-(-self._prompt_size // size), -(-self._reply_size // size))
        read, write = token_count(told.cached_read_tokens), token_count(told.cached_write_tokens)
        thought = token_count(told.thought_tokens)
        given, made = token_count(told.input_tokens), token_count(told.output_tokens)
        if told.total_tokens == given + made:
            given -= read + write  # the special ones are parts of the two
        else:
            made += thought
        return Usage(max(0, given), made, read, write, thought)


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

    def __init__(self, target: Target, agents: AgentPool) -> None:
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
        reply = AgentReplyReader(self._target, request)
        try:
            with StallTimer(self.provider, limits.request, stale) as watch:
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

    async def _turn(
        self, request: ModelRequest, reply: AgentReplyReader
    ) -> AsyncGenerator[Any, None]:
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
        except (RpcError, AgentExited, msgspec.ValidationError, UnicodeEncodeError) as error:
            raise self._failure(agent, error) from error

    async def _session(self, agent: AgentProcess) -> str:
        """A new session with the model the target names, as far as the agent lets us choose."""
        params = {"cwd": str(agent.folder), "mcpServers": []}
        session = msgspec.convert(await agent.rpc.request("session/new", params), NewSessionResult)
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

    def _failure(self, agent: AgentProcess, error: Exception) -> ProviderError:
        match error:
            case RpcError():
                return agent_error(self.provider, agent, error)
            case AgentExited():
                return StreamCut(str(error), provider=self.provider)
            case UnicodeEncodeError():
                told = f"the conversation contains characters that cannot be sent: {error.reason}"
                return UnicodeRefused(told, provider=self.provider)
            case _:
                told = f"{agent.name} sent an answer that cannot be read: {error}"
                return ReplyInvalid(told, provider=self.provider)

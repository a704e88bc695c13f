"""A `Model` that is an agent program on this machine, over the Agent Client Protocol."""

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
from hermes.core.messages import Text, Thinking, made_call_id
from hermes.core.model import ModelEvent, ModelRequest, ReasoningDelta, TextDelta, Usage
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
from hermes.providers.failures import failed_in_stream
from hermes.providers.target import Target
from hermes.providers.wire.codec import ReplyBuilder, content_refused, token_count
from hermes.providers.wire.model import StallTimer
from hermes.util.jsonrpc import RpcError

# Notices of the Copilot CLI. It ends every turn normally and reports failures in a text chunk of
# their own: `Error: 402 Insufficient credits`, `Info: Operation cancelled by user`. Without this
# check a spent quota would look like a reply of the model.

_NOTICE = re.compile(r"(Info|Warning|Error): (\S.*)", re.DOTALL)
_STATUS = re.compile(r"(?:^|HTTP |Last error: )([45]\d\d)\b")
_TOOL_REFUSED = "Operation cancelled by user"
"""The model called a tool of its own, and Hermes refused it."""


class CopilotNotice(msgspec.Struct, frozen=True):
    kind: str
    text: str

    def to_error(self, provider: str) -> ProviderError | None:
        """Return the error if the turn ends with this notice; None for mere information."""
        if self.text == _TOOL_REFUSED:
            return ReplyInvalid(
                f"{provider} tried to use a tool of its own instead of one of Hermes",
                provider=provider,
                hint="try again; `--available-tools=none` in HERMES_COPILOT_ACP_ARGS takes its"
                " tools away",
            )
        if self.kind != "Error":
            return None
        report: dict[str, object] = {"message": self.text}
        if status := _STATUS.search(self.text):
            report["status"] = int(status[1])
        error = failed_in_stream(provider, report)
        if isinstance(error, CredentialRefused):
            error.hint = "log in with that program: run `copilot login`"
        return error


def parse_notice(chunk: str) -> CopilotNotice | None:
    found = _NOTICE.fullmatch(chunk)
    return CopilotNotice(found[1], found[2].strip()) if found else None


# The reply to one prompt.

CHARACTERS_PER_TOKEN = 4  #: For estimates when the agent reports no usage.

_FINISH = {"max_turn_requests": "length"}
"""The agent reached its own limit of model calls: the reply is incomplete."""


class AgentReplyReader:
    """Takes updates as they arrive and builds the reply after the end of the turn."""

    def __init__(self, target: Target, request: ModelRequest) -> None:
        self._target, self._request = target, request
        self._splitter = ToolCallSplitter() if request.tools else None
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._copilot = False
        self._error: ProviderError | None = None
        self._prompt_size = 0
        self._reply_size = 0
        self._end: TurnEnd | None = None

    def set_prompt(self, blocks: Sequence[dict[str, Any]], *, copilot: bool) -> None:
        """Note the size of the prompt, for the estimate, and whether the agent is Copilot."""
        self._copilot = copilot
        self._prompt_size = sum(len(block.get("text", "")) for block in blocks)

    def set_end(self, end: TurnEnd) -> None:
        self._end = end

    def feed(self, raw: Any) -> list[TextDelta | ReasoningDelta]:
        """Return the deltas of an update; none for other kinds of updates.

        An empty delta is progress as well: a call is being written.
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
            self._error = notice.to_error(self._target.provider)
            return []
        self._error = None
        self._reply_size += len(text)
        if update.session_update == "agent_thought_chunk":
            self._thinking.append(text)
            return [ReasoningDelta(text)]
        return [self._add_text(self._splitter.feed(text) if self._splitter else text)]

    def end(self) -> list[ModelEvent]:
        """Return the last deltas and the `Reply`."""
        end, provider = self._end, self._target.provider
        if end is None or end.stop_reason == "cancelled":
            raise StreamCut(f"{provider} ended the reply early", provider=provider)
        if self._error is not None:
            raise self._error
        rest, calls = self._splitter.end() if self._splitter else ("", [])
        last = self._add_text(rest)
        text = "".join(self._text)
        if end.stop_reason == "refusal":
            raise content_refused(provider, text)
        draft = ReplyBuilder(self._target)
        if self._thinking:
            draft.add(Thinking("".join(self._thinking)))
        if text:
            draft.add(Text(text))
        for position, call in enumerate(calls):
            self._add_call(draft, position, call)
        finish = _FINISH.get(end.stop_reason, end.stop_reason)
        return [*([last] if last.text else []), draft.build(finish, self._usage(end.usage))]

    def _add_text(self, text: str) -> TextDelta:
        if text:
            self._text.append(text)
        return TextDelta(text)

    def _add_call(self, draft: ReplyBuilder, position: int, call: ParsedCall) -> None:
        if not call.name:
            raise ReplyInvalid(
                f"{self._target.provider} wrote a tool call without a tool name",
                provider=self._target.provider,
                body=call.arguments[:200],
            )
        place = f"{position} {call.name}"
        call_id = made_call_id(place, call.arguments, len(self._request.messages))
        draft.add_call(call_id, call.name, call.arguments)

    def _usage(self, counts: TokenCounts | None) -> Usage:
        """Return the usage the agent reports, else an estimate."""
        if counts is None:
            size = CHARACTERS_PER_TOKEN
            return Usage(-(-self._prompt_size // size), -(-self._reply_size // size))
        read = token_count(counts.cached_read_tokens)
        write = token_count(counts.cached_write_tokens)
        thought = token_count(counts.thought_tokens)
        input_tokens = token_count(counts.input_tokens)
        output_tokens = token_count(counts.output_tokens)
        if counts.total_tokens == input_tokens + output_tokens:
            input_tokens -= read + write  # cached tokens are part of the input
        else:
            output_tokens += thought
        return Usage(max(0, input_tokens), output_tokens, read, write, thought)


DEFAULT_MODEL = "default"  #: The agent's own choice.

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class AcpModel:
    """Calls an agent program. The owner of `agents` ends the program.

    Each call is a new session and sends the whole conversation, as the HTTP wires do, so no state
    of the agent leaks from one call into the next. The cost: the agent's own system prompt is paid
    for with every call, the provider may cache less, and agents with a history list one session per
    call.

    The protocol has no fields for the length, temperature and effort of a request, so these have no
    effect.
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
            with StallTimer(self.provider, limits.request, stale) as timer:
                async with aclosing(self._turn(request, reply)) as updates:
                    async for update in updates:
                        deltas = reply.feed(update)
                        if not deltas:
                            continue
                        timer.progress()
                        for delta in deltas if request.stream else ():
                            if not delta.text:
                                continue
                            timer.pause()
                            yield delta
                            timer.resume()
        except StreamStalled:
            # It may hang permanently and block every other call.
            self._agents.kill_current("stopped answering and was killed")
            raise
        *last, whole = reply.end()
        for event in (*last, whole) if request.stream else (whole,):
            yield event

    async def _turn(
        self, request: ModelRequest, reply: AgentReplyReader
    ) -> AsyncGenerator[Any, None]:
        """Yield the updates of one prompt; `reply` receives its end."""
        agent = await self._with_timeout(self._agents.ready(), request)
        try:
            session = await self._with_timeout(self._session(agent), request)
            blocks = prompt_blocks(request, images=agent.capabilities.images)
            reply.set_prompt(blocks, copilot=agent.capabilities.is_copilot)
            pending = asyncio.ensure_future(
                agent.rpc.request("session/prompt", {"sessionId": session, "prompt": blocks})
            )
            queue: asyncio.Queue[Any] = asyncio.Queue()
            pending.add_done_callback(queue.put_nowait)
            agent.subscribe(session, queue.put_nowait)
            unfinished = True
            try:
                while (update := await self._with_timeout(queue.get(), request)) is not pending:
                    yield update
                unfinished = False
                reply.set_end(msgspec.convert(pending.result(), TurnEnd))
            finally:
                if not pending.cancel() and not pending.cancelled():
                    pending.exception()  # mark as retrieved
                agent.leave_session(session, unfinished=unfinished)
        except (RpcError, AgentExited, msgspec.ValidationError, UnicodeEncodeError) as error:
            raise self._failure(agent, error) from error

    async def _session(self, agent: AgentProcess) -> str:
        """Return a new session with the target's model, if the agent lets the client choose one."""
        params = {"cwd": str(agent.folder), "mcpServers": []}
        session = msgspec.convert(await agent.rpc.request("session/new", params), NewSessionResult)
        choice, wanted = session.model_selection(), self._target.model
        if wanted in ("", DEFAULT_MODEL):
            return session.session_id
        if choice is None:
            _log.info("%s offers no choice of models; %s is ignored", agent.name, wanted)
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

    async def _with_timeout(self, waiting: Awaitable[_T], request: ModelRequest) -> _T:
        """Await with the longest allowed silence as timeout."""
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
                message = (
                    f"the conversation contains characters that cannot be sent: {error.reason}"
                )
                return UnicodeRefused(message, provider=self.provider)
            case _:
                message = f"{agent.name} sent an answer that cannot be read: {error}"
                return ReplyInvalid(message, provider=self.provider)

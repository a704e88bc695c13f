"""A `Model` that is an agent program on this machine, over the Agent Client Protocol."""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, assert_never
from xml.sax.saxutils import quoteattr

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
from hermes.core.messages import (
    Assistant,
    Image,
    Message,
    System,
    Text,
    Thinking,
    ToolResult,
    User,
    made_call_id,
)
from hermes.core.model import (
    EmitModelEvent,
    ModelRequest,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
    Usage,
)
from hermes.providers.acp.process import (
    AgentExited,
    AgentPool,
    AgentProcess,
    ContentBlock,
    NewSessionResult,
    SessionUpdate,
    TokenCounts,
    TurnEnd,
    agent_error,
)
from hermes.providers.endpoints import Target
from hermes.providers.failures import failed_in_stream
from hermes.providers.wire.codec import ReplyBuilder, content_refused, token_count
from hermes.providers.wire.model import StallTimer
from hermes.util.jsonrpc import RpcError

# Tool calls inside text. A call is a fenced block; the text around it is the reply. The JSON of a
# call is parsed up to the end of the object, not to the next fence, because arguments may contain
# fences.

MARK = "tool_call"
INSTRUCTION = f"""\
To use tools, write one fenced block for each call, on lines of its own:

```{MARK}
{{"name": "NAME OF THE TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
```

The block holds one JSON object; inside its strings a line break is \\n. Write nothing after the
last block: the program runs the calls in their order and sends the results. When no tool is needed
(any more), answer in plain text without such a block."""

_OPENING = re.compile(rf"```+[ \t]*{MARK}[ \t]*\r?\n")
_CLOSING = re.compile(r"\s*```+[ \t]*(?=\r?\n|\Z)")
_POSSIBLE_OPENING = re.compile(r"\s*(?:`{1,2}|```+[ \t]*\w*[ \t]*\r?)?\Z")
"""The end of a fragment that may turn out to precede or begin a call."""
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')
_LENIENT = json.JSONDecoder(strict=False)  #: Accepts line breaks inside strings.


class ParsedCall(msgspec.Struct, frozen=True):
    name: str  #: Empty when the block names no tool.
    arguments: str  #: JSON, or the text found instead.


class ToolCallSplitter:
    """Takes text in fragments; returns text as soon as it cannot be part of a call."""

    def __init__(self) -> None:
        self._held = ""
        self._has_text = self._in_calls = False

    def feed(self, piece: str) -> str:
        self._held += piece
        if self._in_calls:
            return ""
        if opening := _OPENING.search(self._held):
            self._in_calls = True
            text_parts, self._held = self._held[: opening.start()], self._held[opening.start() :]
            return self._emit(text_parts.rstrip())
        undecided = _POSSIBLE_OPENING.search(self._held)
        at = undecided.start() if undecided else len(self._held)
        text_parts, self._held = self._held[:at], self._held[at:]
        return self._emit(text_parts)

    def end(self) -> tuple[str, list[ParsedCall]]:
        """Return the remaining text and the calls."""
        rest, calls, text_parts = self._held, [], []
        while opening := _OPENING.search(rest):
            text_parts.append(rest[: opening.start()].strip())
            call, rest = _parse_call(rest[opening.end() :])
            calls.append(call)
        if not calls:
            return rest, []
        text_parts.append(rest.strip())
        text = "\n\n".join(filter(None, text_parts))
        return f"\n\n{text}" if text and self._has_text else text, calls

    def _emit(self, text_parts: str) -> str:
        self._has_text = self._has_text or bool(text_parts)
        return text_parts


def format_call(name: str, arguments: str) -> str:
    """Return a call as the model should write it."""
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        given = arguments
    body = msgspec.json.encode({"name": name, "arguments": given}).decode()
    return f"```{MARK}\n{body}\n```"


def describe_tools(tools: tuple[ToolSpec, ...]) -> str:
    """Return one line of JSON per tool."""
    return "\n".join(msgspec.json.encode(tool).decode() for tool in tools)


def _parse_call(text: str) -> tuple[ParsedCall, str]:
    """Return the call at the start of `text`, and what follows it."""
    start = len(text) - len(text.lstrip())
    try:
        value, end = _LENIENT.raw_decode(text, start)
    except ValueError:
        # Not JSON: take everything up to the line that closes the block.
        body, _, rest = text.partition("\n```")
        name = _NAME.search(body)
        return ParsedCall(name[1] if name else "", body.strip()), rest.lstrip("`")
    closing = _CLOSING.match(text, end)
    return _to_call(value), text[closing.end() if closing else end :]


def _to_call(value: Any) -> ParsedCall:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return ParsedCall("", json.dumps(value))
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):  # JSON in a string, as in some APIs
        return ParsedCall(name, arguments)
    return ParsedCall(name, msgspec.json.encode(arguments).decode())


# The request as one prompt: an agent takes a prompt, not a conversation with tools.

OPENING = """\
You are the language model inside of a program called Hermes, and this is one request of it. \
Write the next message of the assistant in the conversation below, and nothing else. Your own \
tools are switched off here and your working folder is empty: never call them. Only the tools \
listed here exist, and Hermes runs them on the user's machine."""
CLOSING = "Now write the next message of the assistant."

_TAG = re.compile(r"<(?=/?message\b)", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.+)", re.DOTALL)


def prompt_blocks(request: ModelRequest, *, images: bool) -> list[dict[str, Any]]:
    """Return the content blocks. The beginning depends only on the system text and the tools.

    Without `images` a placeholder marks the position of each image.
    """
    page = _PromptBuilder(images)
    page.text(OPENING)
    messages = request.messages
    if messages and isinstance(messages[0], System):
        page.text(f"# Instructions\n\n{messages[0].text}")
        messages = messages[1:]
    if request.tools:
        page.text(f"# Tools\n\n{INSTRUCTION}\n\n{describe_tools(request.tools)}")
    page.text("# Conversation")
    for message in messages:
        page.message(message)
    if request.reply_schema is not None:
        schema = msgspec.json.encode(request.reply_schema).decode()
        page.text(f"The message must be JSON that follows this schema, without a fence: {schema}")
    page.text(CLOSING)
    return page.blocks()


class _PromptBuilder:
    def __init__(self, images: bool) -> None:
        self._images = images
        self._blocks: list[dict[str, Any]] = []
        self._texts: list[str] = []

    def text(self, text: str) -> None:
        self._texts.append(text)

    def message(self, message: Message) -> None:
        match message:
            case System():
                self._turn("system", message.text)
            case User():
                self._user(message)
            case Assistant():
                calls = [format_call(call.name, call.arguments) for call in message.calls]
                self._turn("assistant", "\n\n".join(filter(None, [message.text, *calls])))
            case ToolResult():
                about = f" name={quoteattr(message.name)}" + ' failed="yes"' * message.failed
                self._turn("tool", message.text, about)
            case _:
                assert_never(message)

    def blocks(self) -> list[dict[str, Any]]:
        if self._texts:
            self._blocks.append({"type": "text", "text": "\n\n".join(self._texts)})
            self._texts = []
        return self._blocks

    def _turn(self, role: str, text: str, about: str = "") -> None:
        self.text(f'<message role="{role}"{about}>\n{_escape_tags(text)}\n</message>')

    def _user(self, message: User) -> None:
        if all(isinstance(part, Text) for part in message.parts):
            self._turn("user", message.text)
            return
        self.text('<message role="user">')
        for part in message.parts:
            if isinstance(part, Text):
                self.text(_escape_tags(part.text))
            else:
                self._image(part)
        self.text("</message>")

    def _image(self, image: Image) -> None:
        data = _DATA_URL.fullmatch(image.url)
        if data is None:
            self.text(f"[image: {_escape_tags(image.url[:500])}]")
        elif not self._images:
            self.text("[an image that cannot be shown here]")
        else:
            self.blocks().append({"type": "image", "mimeType": data[1], "data": data[2]})


def _escape_tags(text: str) -> str:
    """Escape everything in `text` that looks like a message tag."""
    return _TAG.sub("&lt;", text)


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

    def feed(self, raw: Any) -> TextDelta | ReasoningDelta | None:
        """Return the delta of an update; None for other kinds of updates.

        An empty delta is progress as well: a call is being written.
        """
        try:
            update = msgspec.convert(raw, SessionUpdate)
            if update.session_update not in ("agent_message_chunk", "agent_thought_chunk"):
                return None
            text = msgspec.convert(update.content, ContentBlock).text or ""
        except msgspec.ValidationError:
            return None
        if not text:
            return None
        if self._copilot and (notice := parse_notice(text)):
            self._error = notice.to_error(self._target.provider)
            return None
        self._error = None
        self._reply_size += len(text)
        if update.session_update == "agent_thought_chunk":
            self._thinking.append(text)
            return ReasoningDelta(text)
        return self._add_text(self._splitter.feed(text) if self._splitter else text)

    def end(self) -> tuple[TextDelta, Reply]:
        """Return the last delta, which may be empty, and the reply."""
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
        return last, draft.build(finish, self._usage(end.usage))

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

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        limits = self._target.timeouts
        stale = limits.stale if request.stream else limits.request
        reader = AgentReplyReader(self._target, request)
        try:
            with StallTimer(self.provider, limits.request, stale) as timer:

                def on_update(update: Any) -> None:
                    delta = reader.feed(update)
                    if delta is None:
                        return
                    timer.progress()
                    if request.stream and delta.text:
                        emit(delta)

                await self._turn(request, reader, on_update)
        except StreamStalled:
            # It may hang permanently and block every other call.
            self._agents.kill_current("stopped answering and was killed")
            raise
        last, reply = reader.end()
        if request.stream and last.text:
            emit(last)
        return reply

    async def _turn(
        self, request: ModelRequest, reader: AgentReplyReader, on_update: Callable[[Any], None]
    ) -> None:
        """Send one prompt and wait for its end, which `reader` receives."""
        agent = await self._with_timeout(self._agents.ready(), request)
        try:
            session = await self._with_timeout(self._session(agent), request)
            blocks = prompt_blocks(request, images=agent.capabilities.images)
            reader.set_prompt(blocks, copilot=agent.capabilities.is_copilot)
            pending = asyncio.ensure_future(
                agent.rpc.request("session/prompt", {"sessionId": session, "prompt": blocks})
            )
            queue: asyncio.Queue[Any] = asyncio.Queue()
            pending.add_done_callback(queue.put_nowait)
            agent.subscribe(session, queue.put_nowait)
            unfinished = True
            try:
                while (update := await self._with_timeout(queue.get(), request)) is not pending:
                    on_update(update)
                unfinished = False
                reader.set_end(msgspec.convert(pending.result(), TurnEnd))
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

"""Requests of a server: questions to the user (elicitation) and to the model (sampling).

Both belong to a call in progress. Without a user, or for a secret, questions are declined; requests
to the model stay within the limits of the settings.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

import jsonschema_rs
import msgspec

from hermes.config.settings import McpSampling
from hermes.core.errors import ProviderError
from hermes.core.events import QuestionAnswered, QuestionAsked
from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    UserPart,
)
from hermes.core.model import ModelRequest, ToolSpec
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext
from hermes.mcp.session import CallTicket
from hermes.mcp.transport import USER_REJECTED, ServerRefused, one_line
from hermes.util.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from hermes.util.text import clean

log = logging.getLogger(__name__)

# The fields of a form as questions that a user answers in words.

SKIP = "skip"
YES, NO = "yes", "no"
MAX_FIELDS, MAX_CHOICES = 20, 12
BOOLEAN_WORDS = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_BETWEEN = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRET = re.compile(
    r"\b(pass(word|wd|phrase|code)|secret|token|credentials?|(api|access|private|secret) ?key)s?\b"
)
PRIMITIVE = ("string", "number", "integer", "boolean", "array")


class FormInvalid(Exception):
    """The schema is not a list of simple fields; the text says why."""


class AnswerInvalid(Exception):
    """The answer does not match the field; the text says why."""


class FormOption(msgspec.Struct, frozen=True):
    value: Any
    title: str


class FormField(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Any]
    required: bool
    options: tuple[FormOption, ...] = ()

    @property
    def kind(self) -> str:
        return str(self.schema.get("type"))

    @property
    def question(self) -> str:
        """For example `Age (a whole number): how old you are`."""
        title = one_line(str(self.schema.get("title") or self.name), 100)
        description = one_line(str(self.schema.get("description") or ""), 500)
        extra = _KINDS.get(self.kind, "")
        if "default" in self.schema:
            extra = one_line(f"{extra}; {SKIP} means {self.schema['default']}".strip("; "), 200)
        text = f"{title} ({extra})" if extra else title
        return f"{text}: {description}" if description else text

    @property
    def choices(self) -> tuple[str, ...]:
        found = [YES, NO] if self.kind == "boolean" else []
        if self.kind == "string":
            found = [option.title for option in self.options[:MAX_CHOICES]]
        return (*found, *(() if self.required else (SKIP,)))

    def read(self, answer: str) -> Any:
        """Return the value of an answer. Raises `AnswerInvalid`."""
        try:
            value = _READERS[self.kind](self, answer.strip())
        except ValueError as error:
            raise AnswerInvalid(f"that is not {_KINDS.get(self.kind, 'an answer')}") from error
        problem = next(iter(_validator(self.schema).iter_errors(value)), None)
        if problem is not None:
            raise AnswerInvalid(problem.message)
        return value


def parse_form(schema: Any) -> list[FormField]:
    """Return the fields of a form. Raises `FormInvalid`."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise FormInvalid("it is not a form")
    if len(properties) > MAX_FIELDS:
        raise FormInvalid(f"it has more than {MAX_FIELDS} fields")
    required = schema.get("required", [])
    names = required if isinstance(required, list) else []
    return [_parse_field(name, each, name in names) for name, each in properties.items()]


def _parse_field(name: str, schema: Any, required: bool) -> FormField:
    if not isinstance(schema, dict) or schema.get("type") not in PRIMITIVE or "$ref" in schema:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    words = _BETWEEN.sub(" ", f"{name} {schema.get('title', '')}").lower()
    if schema.get("format") == "password" or _SECRET.search(words):
        raise FormInvalid(f"it asks for a secret ({name[:50]})")
    items = schema.get("items") if schema["type"] == "array" else schema
    options = _parse_options(items) if isinstance(items, dict) else ()
    if schema["type"] == "array" and not options:
        raise FormInvalid(f"the field {name[:50]!r} is not a simple one")
    try:
        _validator(schema)
    except ValueError as error:
        raise FormInvalid(f"the field {name[:50]!r} makes no sense") from error
    return FormField(name, schema, required, options)


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator that does not fetch external references."""
    return jsonschema_rs.validator_for(schema, offline=True)


def _parse_options(schema: dict[str, Any]) -> tuple[FormOption, ...]:
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        each = [option for option in titled if isinstance(option, dict) and "const" in option]
        values = [one["const"] for one in each]
        titles = [one.get("title") or one["const"] for one in each]
    else:
        listed, names = schema.get("enum"), schema.get("enumNames")
        values = listed if isinstance(listed, list) else []
        titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(
        FormOption(value, one_line(str(title), 100))
        for value, title in zip(values, titles, strict=True)
    )


def _read_choice(field: FormField, answer: str) -> Any:
    for option in field.options:
        if answer.lower() in (str(option.value).lower(), option.title.lower()):
            return option.value
    raise AnswerInvalid(f"choose one of: {', '.join(each.title for each in field.options)}")


def _read_boolean(_field: FormField, answer: str) -> Any:
    if answer.lower() not in BOOLEAN_WORDS:
        raise AnswerInvalid("answer yes or no")
    return BOOLEAN_WORDS[answer.lower()]


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "array": "several, separated by commas",
}
_READERS: dict[str, Callable[[FormField, str], Any]] = {
    "string": lambda field, answer: _read_choice(field, answer) if field.options else answer,
    "integer": lambda _field, answer: int(answer),
    "number": lambda _field, answer: float(answer),
    "boolean": _read_boolean,
    "array": lambda field, answer: [
        _read_choice(field, part.strip()) for part in answer.split(",") if part.strip()
    ],
}


DECLINE = "decline"
MAX_TRIES = 3
MESSAGE_CHARS, URL_CHARS = 1_000, 2_000
DECLINED: dict[str, Any] = {"action": "decline"}
CANCELLED: dict[str, Any] = {"action": "cancel"}


class ElicitationRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `elicitation/create`."""

    message: str = ""
    mode: str = "form"
    requested_schema: Any = None
    url: str = ""


class _Unanswered(Exception):
    """The user declined, did not answer, or not with a valid value."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        self.result = result


class Elicitation:
    """Answers `elicitation/create` of one server. `timeout` is `clarify.timeout`, per question."""

    def __init__(self, server: str, timeout: float) -> None:
        self._server, self._timeout = server, timeout

    async def answer(self, params: dict[str, Any], ticket: CallTicket | None) -> dict[str, Any]:
        if ticket is None:
            log.info("%s has a question, but its user is not known", self._server)
            return DECLINED
        request = msgspec.convert(params, ElicitationRequest)
        if request.mode != "form":
            show_url(ticket.call, self._server, request.message, request.url)
            return DECLINED
        if ticket.caller.clarifier is None:
            return DECLINED
        try:
            fields = parse_form(request.requested_schema or {})
        except FormInvalid as error:
            ticket.call.output(f"{self._server} asked a question that was declined: {error}\n")
            return DECLINED
        ask = partial(self._ask, ticket.caller.clarifier, ticket.call)
        head = f"The MCP server {self._server} asks: {one_line(request.message, MESSAGE_CHARS)}"
        content: dict[str, Any] = {}
        with ticket.paused():
            async with ticket.caller.asking:
                try:
                    if not fields and await ask(head, (YES, NO)) != YES:
                        return DECLINED
                    for field in fields:
                        content |= await _fill(ask, head, field)
                        head = f"The MCP server {self._server} also asks"
                except _Unanswered as unanswered:
                    return unanswered.result
        return {"action": "accept", "content": content}

    async def _ask(
        self, clarifier: Clarifier, call: ToolContext, text: str, choices: tuple[str, ...]
    ) -> str:
        """Ask one question and return the answer. The question is always closed."""
        asked = QuestionAsked(call.call_id, text, (*choices, DECLINE))
        answer = ""
        call.announce(asked)
        try:
            async with asyncio.timeout(self._timeout or None):
                answer = (await clarifier.clarify(asked)).strip()
        except TimeoutError:
            raise _Unanswered(CANCELLED) from None
        finally:
            call.announce(QuestionAnswered(asked.call_id, answer))
        if not answer or answer.lower() == DECLINE:
            raise _Unanswered(DECLINED if answer else CANCELLED)
        return answer


async def _fill(
    ask: Callable[[str, tuple[str, ...]], Awaitable[str]], head: str, field: FormField
) -> dict[str, Any]:
    """Ask for a field until the answer is valid."""
    problem = ""
    for _ in range(MAX_TRIES):
        text = "\n".join(part for part in (head, field.question, problem) if part)
        answer = await ask(text, field.choices)
        if answer.lower() == SKIP and not field.required:
            return {field.name: field.schema["default"]} if "default" in field.schema else {}
        try:
            return {field.name: field.read(answer)}
        except AnswerInvalid as error:
            problem = str(error)
    raise _Unanswered(CANCELLED)


def show_url(call: ToolContext, server: str, message: str, url: str) -> None:
    """Show the address of a page that the server wants the user to open; it is not opened."""
    why = one_line(message, MESSAGE_CHARS)
    call.output(f"{server} wants you to open {one_line(url, URL_CHARS)} ({why})\n")


# Conversion between the messages of a server and those of Hermes.

MAX_REQUEST_CHARS = 400_000  #: Size limit of one request to the model.


class SamplingBlock(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a message; its type determines which fields are used."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: tuple["SamplingBlock", ...] = ()
    is_error: bool = False


class SamplingMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: SamplingBlock | tuple[SamplingBlock, ...]

    @property
    def blocks(self) -> tuple[SamplingBlock, ...]:
        return self.content if isinstance(self.content, tuple) else (self.content,)


def conversation(said: Sequence[SamplingMessage], system: str) -> tuple[Message, ...]:
    """Return the messages for the model. Raises `ServerRefused` for unsupported content."""
    if not said:
        raise ServerRefused("there is no message", INVALID_PARAMS)
    size = len(msgspec.json.encode(said)) + len(system)
    if size > MAX_REQUEST_CHARS:
        raise ServerRefused(
            f"the messages have {size} characters; {MAX_REQUEST_CHARS} are allowed", INVALID_PARAMS
        )
    found: list[Message] = [System(clean(system))] if system else []
    names = {block.id: block.name for each in said for block in each.blocks if block.id}
    for each in said:
        found += _assistant(each) if each.role == "assistant" else _user(each, names)
    return tuple(found)


def tool_rounds(said: Sequence[SamplingMessage]) -> int:
    """Return the number of tool rounds since the last message of the user."""
    rounds = 0
    for each in reversed(said):
        kinds = {block.type for block in each.blocks}
        if each.role == "assistant":
            rounds += "tool_use" in kinds
        elif "tool_result" not in kinds:
            break
    return rounds


def reply_content(message: Assistant) -> Any:
    """Return one block, or a list of several."""
    blocks: list[dict[str, Any]] = []
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        for call in message.calls
    ]
    if not blocks:
        return {"type": "text", "text": ""}
    return blocks if message.calls else blocks[0]


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _assistant(said: SamplingMessage) -> list[Message]:
    parts: list[AssistantPart] = []
    for block in said.blocks:
        if block.type == "tool_use":
            arguments = msgspec.json.encode(block.input).decode()
            parts.append(ToolCall(block.id, block.name, arguments))
        else:
            parts.append(Text(_text(block)))
    calls = any(isinstance(part, ToolCall) for part in parts)
    return [Assistant(tuple(parts), "tool_calls" if calls else "stop")]


def _user(said: SamplingMessage, names: dict[str, str]) -> list[Message]:
    results: list[Message] = []
    parts: list[UserPart] = []
    for block in said.blocks:
        if block.type == "tool_result":
            text = "\n".join(_text(each) for each in block.content)
            name = names.get(block.tool_use_id, "")
            results.append(ToolResult(block.tool_use_id, name, text, block.is_error))
        elif block.type == "image" and block.data:
            parts.append(Image(f"data:{block.mime_type or 'image/png'};base64,{block.data}"))
        else:
            parts.append(Text(_text(block)))
    return [*results, User(tuple(parts))] if parts else results


def _text(block: SamplingBlock) -> str:
    return clean(block.text) if block.type == "text" else f"[{block.type} left out]"


MINUTE = 60.0
STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}
MAX_TOOLS = 64


class ModelHint(msgspec.Struct, frozen=True):
    name: str = ""


class ModelPreferences(msgspec.Struct, frozen=True):
    hints: tuple[ModelHint, ...] = ()


class SamplingTool(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    inputSchema: dict[str, Any] = {}  # noqa: N815 - the name on the wire


class SamplingToolChoice(msgspec.Struct, frozen=True):
    mode: str = "auto"


class SamplingRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of `sampling/createMessage`."""

    messages: tuple[SamplingMessage, ...]
    system_prompt: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    model_preferences: ModelPreferences | None = None
    tools: tuple[SamplingTool, ...] = ()
    tool_choice: SamplingToolChoice | None = None


class Sampling:
    """Answers `sampling/createMessage` of one server, within the limits of its settings."""

    def __init__(self, server: str, settings: McpSampling) -> None:
        self._server, self._settings = server, settings
        self._recent: deque[float] = deque()
        self._level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities declared to the server."""
        tools: dict[str, Any] = {"tools": {}} if self._settings.max_tool_rounds else {}
        return {"sampling": tools} if self._settings.enabled else {}

    async def answer(self, params: dict[str, Any], ticket: CallTicket | None) -> Any:
        if not self._settings.enabled:
            raise ServerRefused("sampling is switched off", USER_REJECTED)
        if ticket is None or ticket.caller.sampler is None:
            raise ServerRefused("no session is there to ask a model for", USER_REJECTED)
        request = msgspec.convert(params, SamplingRequest)
        model_request = self._model_request(request)
        self._check_rate()
        log.log(self._level, "%s asks the model (%d messages)", self._server, len(request.messages))
        try:
            with ticket.paused():
                async with asyncio.timeout(self._settings.timeout or None):
                    names = self._model_names(request)
                    reply = await ticket.caller.sampler.ask(model_request, names)
        except TimeoutError:
            raise ServerRefused("the model did not answer in time", INTERNAL_ERROR) from None
        except ProviderError as error:
            raise ServerRefused(f"the model could not be asked: {error}", INTERNAL_ERROR) from error
        reason = reply.message.finish_reason
        return {
            "role": "assistant",
            "content": reply_content(reply.message),
            "model": reply.model,
            "stopReason": STOP_REASONS.get(reason, reason),
        }

    def _model_request(self, request: SamplingRequest) -> ModelRequest:
        cap = self._settings.max_tokens_cap
        asked = request.max_tokens if request.max_tokens and request.max_tokens > 0 else cap
        return ModelRequest(
            conversation(request.messages, request.system_prompt or ""),
            self._tools(request),
            max_tokens=min(asked, cap),
            temperature=request.temperature,
            stream=False,
        )

    def _tools(self, request: SamplingRequest) -> tuple[ToolSpec, ...]:
        """Return the server's tools, which it runs itself; none after its last round."""
        unwanted = request.tool_choice is not None and request.tool_choice.mode == "none"
        if unwanted or tool_rounds(request.messages) >= self._settings.max_tool_rounds:
            return ()
        empty = {"type": "object", "properties": {}}
        return tuple(
            ToolSpec(tool.name, tool.description, tool.inputSchema or empty)
            for tool in request.tools[:MAX_TOOLS]
        )

    def _model_names(self, request: SamplingRequest) -> tuple[str, ...]:
        """Return the configured model or, without one, the allowed models the server prefers."""
        if self._settings.model:
            return (self._settings.model,)
        hints = request.model_preferences.hints if request.model_preferences else ()
        names = [hint.name.strip() for hint in hints if hint.name.strip()]
        if not self._settings.allowed_models:
            return tuple(names)
        found = [
            model
            for name in names
            for model in self._settings.allowed_models
            if name.lower() in model.lower()
        ]
        return tuple(dict.fromkeys(found))

    def _check_rate(self) -> None:
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= MINUTE:
            self._recent.popleft()
        if len(self._recent) >= self._settings.max_rpm:
            raise ServerRefused(
                f"more than {self._settings.max_rpm} requests a minute", USER_REJECTED
            )
        self._recent.append(now)

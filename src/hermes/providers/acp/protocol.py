"""The Agent Client Protocol, version 1: what a model needs of it.

Agents omit fields or send null; unknown fields are ignored.
"""

import json
import re
from typing import Any, assert_never
from xml.sax.saxutils import quoteattr

import msgspec

from hermes.core.messages import Assistant, Image, Message, System, Text, ToolResult, User
from hermes.core.model import ModelRequest, ToolSpec

VERSION = 1
AUTH_REQUIRED = -32000


class AcpStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base struct; field names are camelCase, such as `sessionId`."""


class PromptCapabilities(AcpStruct, frozen=True):
    image: bool | None = None


class AgentCapabilities(AcpStruct, frozen=True):
    prompt_capabilities: PromptCapabilities | None = None
    session_capabilities: dict[str, Any] | None = None
    """One key for each optional session method of the agent: `close`, `delete`."""


class AuthMethod(AcpStruct, frozen=True):
    name: str | None = None
    description: str | None = None


class AgentInfo(AcpStruct, frozen=True):
    name: str = ""


class Initialized(AcpStruct, frozen=True):
    protocol_version: int
    agent_info: AgentInfo | None = None
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None

    @property
    def images(self) -> bool:
        prompt = self.agent_capabilities and self.agent_capabilities.prompt_capabilities
        return bool(prompt and prompt.image)

    @property
    def is_copilot(self) -> bool:
        return self.agent_info is not None and "copilot" in self.agent_info.name.lower()

    @property
    def closing_methods(self) -> tuple[str, ...]:
        """Methods that release a session."""
        known = (self.agent_capabilities and self.agent_capabilities.session_capabilities) or {}
        return tuple(
            f"session/{name}" for name in ("close", "delete") if known.get(name) is not None
        )


class ModelSelection(msgspec.Struct, frozen=True):
    """How to set the model of a session."""

    method: str
    fields: dict[str, str]  #: Further parameters of the method.
    key: str  #: Name of the parameter that takes the model.
    models: list[str]


class OfferedModel(AcpStruct, frozen=True):
    model_id: str


class AcpModelList(AcpStruct, frozen=True):
    available_models: list[OfferedModel] = []


class SelectOption(AcpStruct, frozen=True):
    """An option, or a group of options."""

    value: str | None = None
    options: list["SelectOption"] | None = None

    def values(self) -> list[str]:
        inside = [value for option in self.options or () for value in option.values()]
        return inside if self.value is None else [self.value]


class ConfigOption(AcpStruct, frozen=True):
    id: str
    category: Any = None
    options: Any = None  #: For a `select`: its options.


class NewSessionResult(AcpStruct, frozen=True):
    session_id: str
    models: AcpModelList | None = None
    config_options: list[ConfigOption] | None = None

    def model_selection(self) -> ModelSelection | None:
        """Return how to choose the model; None when the agent offers no choice.

        The list under `models` is the older form, the option of category `model` the newer one.
        """
        for setting in self.config_options or ():
            if setting.category == "model":
                options = msgspec.convert(setting.options or [], list[SelectOption])
                values = [value for option in options for value in option.values()]
                fields = {"configId": setting.id}
                return ModelSelection("session/set_config_option", fields, "value", values)
        if self.models is not None:
            ids = [entry.model_id for entry in self.models.available_models]
            return ModelSelection("session/set_model", {}, "modelId", ids)
        return None


class TokenCounts(AcpStruct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None


class TurnEnd(AcpStruct, frozen=True):
    stop_reason: str
    usage: TokenCounts | None = None


class ContentBlock(AcpStruct, frozen=True):
    type: str = ""
    text: str | None = None


class SessionUpdate(AcpStruct, frozen=True):
    session_update: str = ""
    content: Any = None  #: For a chunk: one `ContentBlock`.


class PermissionOption(AcpStruct, frozen=True):
    option_id: str
    kind: str = ""


class PermissionRequest(AcpStruct, frozen=True):
    options: list[PermissionOption] = []


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

"""Makes small models usable as agents: tool calls over a JSON grammar."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, assert_never

import msgspec

from hermes.core.errors import ProviderError
from hermes.core.messages import (
    Assistant,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    canonical_arguments,
    made_call_id,
)
from hermes.core.model import (
    EmitModelEvent,
    Model,
    ModelEvent,
    ModelRequest,
    Reply,
    Retrying,
    TextDelta,
    ToolSpec,
    Usage,
)
from hermes.providers.policy import ModelWrapper
from hermes.util.text import cut_middle

# The prompt of a small model, as data. A model of half a billion parameters fails with native
# `tools=` and with long prompts. It works with a few tools, a page of examples and a grammar that
# allows only a call or a reply.

REPLY = "reply"  #: The key of a reply to the user; other keys are names of tools.


class ToolHint(msgspec.Struct, frozen=True):
    """How one known tool is shown: fewer parameters and words than its full schema."""

    name: str
    about: str
    parameters: tuple[str, ...]


class ExampleStep(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, Any]
    result: str


class PromptExample(msgspec.Struct, frozen=True):
    """One exchange shown before the conversation; omitted when its tool is not offered."""

    user: str
    reply: str
    steps: tuple[ExampleStep, ...] = ()
    words: str = ""  #: Other words of questions like this one.


class SmallProfile(msgspec.Struct, frozen=True):
    system: str
    hints: tuple[ToolHint, ...]
    """Known tools, most useful first; the order decides which ones are offered."""
    examples: tuple[PromptExample, ...]
    """Shown in every request, so a runtime can cache them."""
    library: tuple[PromptExample, ...] = ()
    """Examples of which the `max_similar` most similar to the question are shown as well."""
    max_similar: int = 2
    about: str = ""  #: The answer to questions that match `about_questions`; `{model}` is its name.
    about_questions: str = ""
    writing: str = ""
    """Requests for a short text that needs no tool. As the first message of a conversation they
    are sent without tools: the prompt is a fifth as long, so the answer starts seconds earlier."""
    writing_system: str = ""
    max_tools: int = 5
    max_calls: int = 6  #: Calls after one user message; then the model has to reply.
    same_call: int = 2  #: How often the same call may be repeated after one user message.
    context: int = 4096  #: Tokens of prompt and reply together.
    max_tokens: int = 768  #: Tokens of one reply.
    max_text: int = 1600  #: Characters of a reply and of each parameter in `long_parameters`.
    max_argument: int = 300  #: Characters of other texts in a call.
    long_parameters: tuple[str, ...] = ("content", "old_string", "new_string")
    result_tokens: int = 300  #: Tokens of a tool result that are shown.
    bytes_per_token: float = 2.8
    """For estimates; deliberately low, since code and numbers take more tokens than prose."""


@lru_cache(maxsize=1)
def small_profile() -> SmallProfile:
    data = Path(__file__).with_name("small_model.json").read_bytes()
    return msgspec.json.decode(data, type=SmallProfile)


# Streaming the text of `{"reply":"…"}`.

_START = re.compile(rf'\s*\{{\s*"{REPLY}"\s*:\s*"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r'|\\[^u]|[^"\\]+'
)


class ReplyTextReader:
    """Decodes the text of a reply while its JSON arrives.

    Returns nothing for a tool call. An incomplete escape waits for the rest.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._inside = False
        self.json = ""  #: Everything fed so far.
        self.text = ""  #: The text so far.

    def feed(self, json: str) -> str:
        self._waiting += json
        self.json += json
        if not self._inside:
            start = _START.match(self._waiting)
            if start is None:
                return ""
            self._inside = True
            self._waiting = self._waiting[start.end() :]
        pieces: list[str] = []
        position = 0
        while piece := _PIECE.match(self._waiting, position):
            text, position = piece[0], piece.end()
            if text.startswith("\\u"):
                units = bytes.fromhex(text.replace("\\u", ""))
                text = units.decode("utf-16-be", "replace")
            elif text.startswith("\\"):
                text = _ESCAPES.get(text[1], text[1])
            pieces.append(text)
        self._waiting = self._waiting[position:]
        new = "".join(pieces)
        self.text += new
        return new


LOOP = 120  #: Characters at the end that only repeat themselves.
MAX_PERIOD = 120


def is_looping(text: str) -> bool:
    """Return whether `text` ends with the same few characters again and again."""
    for period in range(1, MAX_PERIOD + 1):
        length = max(LOOP, 3 * period)
        tail = text[-length:]
        if len(tail) == length and tail[period:] == tail[:-period]:
            return True
    return False


class _Looping(Exception):
    """Ends a stream that only repeats itself."""


# Offered tools, and the grammar of the answer.

MAX_DESCRIPTION = 80


def select_tools(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[ToolSpec, ...]:
    """Return at most `max_tools` tools: those of the profile in its order, then the others.

    Each is reduced to the parameters of its hint, or to the required ones without a hint.
    """
    rank = {hint.name: position for position, hint in enumerate(profile.hints)}
    hints = {hint.name: hint for hint in profile.hints}
    known = [spec for spec in specs if spec.name != REPLY]
    known.sort(key=lambda spec: rank.get(spec.name, len(rank)))
    chosen = known[: profile.max_tools]
    return tuple(_shorten_tool(spec, hints.get(spec.name), profile) for spec in chosen)


def reply_schema(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> dict[str, Any]:
    """Return a schema of one object with one key: a tool with arguments, or `reply` with text."""
    options = [_option(spec.name, spec.parameters) for spec in specs]
    text = {"type": "string", "maxLength": profile.max_text}
    return {"oneOf": [*options, _option(REPLY, text)]}


def describe_tool(spec: ToolSpec) -> str:
    """Return the tool's line in the system prompt."""
    names = ", ".join(spec.parameters["properties"])
    return f"{spec.name}({names}): {spec.description}"


def _shorten_tool(spec: ToolSpec, hint: ToolHint | None, profile: SmallProfile) -> ToolSpec:
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    required = tuple(spec.parameters.get("required", ()))
    names = hint.parameters if hint else required
    shown = {
        name: _parameter_schema(
            properties[name],
            profile.max_text if name in profile.long_parameters else profile.max_argument,
        )
        for name in names
        if name in properties
    }
    parameters = {
        "type": "object",
        "properties": shown,
        "required": list(shown),
        "additionalProperties": False,
    }
    sentence = spec.description.split("\n", 1)[0].split(". ", 1)[0]
    return ToolSpec(spec.name, hint.about if hint else sentence[:MAX_DESCRIPTION], parameters)


def _parameter_schema(schema: dict[str, Any], max_length: int) -> dict[str, Any]:
    """Return a parameter schema without descriptions and with bounded text.

    A reference would point into the tool's own schema, which is not sent, so any value is allowed.
    """
    if b"$ref" in msgspec.json.encode(schema):
        return {}
    kept = {key: value for key, value in schema.items() if key not in ("description", "default")}
    return {**kept, "maxLength": max_length} if kept.get("type") == "string" else kept


def _option(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }


# The conversation as a small model sees it: short, flat, and within its context. The prefix (system
# text and examples) depends only on the profile and the tools, so it stays the same byte for byte
# and a runtime can cache it.

COMMON_WORD = 6  #: A word of more examples of the library says nothing about a question.
MIN_SCORE = 0.5  #: Of examples that are shown.
MAX_QUESTION = 300  #: Characters of a question that are compared with examples.
MARGIN = 64  #: Tokens reserved for the markers of the chat template.


def prompt_prefix(specs: tuple[ToolSpec, ...], profile: SmallProfile) -> tuple[Message, ...]:
    """Return the system text and the examples whose tools are offered."""
    lines = "\n".join(f"- {describe_tool(spec)}" for spec in specs)
    names = {spec.name for spec in specs}
    messages: list[Message] = [System(profile.system.replace("{tools}", lines))]
    for example in profile.examples:
        messages += _example_messages(example, names)
    return tuple(messages)


def similar_examples(
    question: str, specs: tuple[ToolSpec, ...], profile: SmallProfile
) -> tuple[Message, ...]:
    """Return the examples of the library that share most words with the question, best last.

    A word counts more the fewer examples have it, and words of many examples do not count.
    """
    words = [_words(f"{example.user} {example.words}") for example in profile.library]
    counts = Counter(word for one in words for word in one)
    asked = {word for word in _words(question) if 0 < counts[word] <= COMMON_WORD}
    scores = [sum(1 / counts[word] for word in one & asked) for one in words]
    best = sorted(range(len(scores)), key=lambda place: -scores[place])[: profile.max_similar]
    names = {spec.name for spec in specs}
    messages: list[Message] = []
    for place in reversed(best):
        if scores[place] > max(MIN_SCORE, max(scores) / 2):
            messages += _example_messages(profile.library[place], names)
    return tuple(messages)


def _example_messages(example: PromptExample, tools: set[str]) -> list[Message]:
    if not all(step.tool in tools for step in example.steps):
        return []
    messages: list[Message] = [User.say(example.user)]
    for step in example.steps:
        messages += [_assistant_json({step.tool: step.arguments}), _result(step.result)]
    return [*messages, _assistant_json({REPLY: example.reply})]


def _said(message: User) -> str:
    return "".join(part.text for part in message.said if isinstance(part, Text))


def _words(text: str) -> set[str]:
    """Return the words of a question; of a file name, its suffix."""
    names = re.sub(r"\S*\w\.(\w+)", r" .\1 ", text.lower())
    return set(re.findall(r"\.?[^\W\d_]+", names))


def fit_conversation(
    messages: tuple[Message, ...], profile: SmallProfile, budget: int
) -> tuple[Message, ...]:
    """Shorten the conversation to `budget` tokens: the newest turns that fit, always the latest.

    A turn is a user message with everything that followed. If even the latest does not fit, its
    oldest results are dropped first, then the middle of the user message.
    """
    turns = _turns(messages)
    if not turns:
        return ()
    newest = _fit_turn([_simplify(m, profile) for m in turns[-1]], profile, budget)
    room = budget - _estimate(newest, profile)
    kept: list[Message] = newest
    for turn in reversed(turns[:-1]):
        older = [_simplify(message, profile) for message in turn]
        room -= _estimate(older, profile)
        if room < 0:
            break
        kept = older + kept
    return tuple(kept)


def latest_turn(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the latest user message and everything after it."""
    turns = _turns(messages)
    return tuple(turns[-1]) if turns else ()


def estimate_tokens(messages: Iterable[Message], profile: SmallProfile) -> int:
    return _estimate([_simplify(message, profile) for message in messages], profile)


def shorten_result(message: ToolResult, profile: SmallProfile) -> str:
    """Return the part of a result that the model sees."""
    limit = int(profile.result_tokens * profile.bytes_per_token)
    return cut_middle(_flatten_json(message.text).strip() or "[no output]", limit)


def _turns(messages: tuple[Message, ...]) -> list[list[Message]]:
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, System):
            continue
        if isinstance(message, User) or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _simplify(message: Message, profile: SmallProfile) -> Message:
    """Return the message in the form of the examples."""
    match message:
        case System():
            return message
        case User():
            return User.say(message.text)
        case Assistant() if message.calls:
            # Several calls as one line each; a small model itself makes one at a time.
            calls = [{call.name: _parse_arguments(call.arguments)} for call in message.calls]
            return Assistant((Text("\n".join(map(_encode_json, calls))),))
        case Assistant():
            return _assistant_json({REPLY: message.text})
        case ToolResult():
            text = shorten_result(message, profile)
            return _result(f"Error: {text}" if message.failed else text)
        case _:
            assert_never(message)


def _fit_turn(turn: list[Message], profile: SmallProfile, budget: int) -> list[Message]:
    first, rest = turn[:1], turn[1:]
    while len(rest) > 2 and _estimate(first + rest, profile) > budget:
        rest = rest[2:]
    over = _estimate(first + rest, profile) - budget
    if over <= 0 or not isinstance(first[0], User):
        return first + rest
    limit = max(len(first[0].text) - int((over + MARGIN) * profile.bytes_per_token), 200)
    return [User.say(cut_middle(first[0].text, limit)), *rest]


def _estimate(messages: list[Message], profile: SmallProfile) -> int:
    sizes = (len(message.text.encode()) for message in messages)
    return sum(int(size / profile.bytes_per_token) + 6 for size in sizes)


def _assistant_json(value: dict[str, Any]) -> Assistant:
    return Assistant((Text(_encode_json(value)),))


def _result(text: str) -> User:
    return User.say(f"Result:\n{text}")


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parse_arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _flatten_json(text: str) -> str:
    """Write a JSON object as `name: value` lines, which a small model reads better."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    if not isinstance(value, dict):
        return text
    shown = {key: item for key, item in value.items() if item not in (None, "", [], {})}
    texts = {k: item if isinstance(item, str) else _encode_json(item) for k, item in shown.items()}
    return "\n".join(f"{key}: {item}" for key, item in texts.items())


CUT = "[cut off]"  #: Ends a text that the model did not finish.


class SmallModel(ModelWrapper):
    """Makes a model usable that cannot use tools natively, or not with a long prompt.

    The agent's system prompt and tool schemas are replaced by a short prompt, a few tools and
    examples. The answer must follow a JSON Schema and is mapped back to a tool call or text.
    """

    def __init__(self, inner: Model, profile: SmallProfile | None = None) -> None:
        super().__init__(inner)
        self._profile = profile or small_profile()

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        """Raises `ProviderError` when there is neither a call nor text, after one more request.

        The second request is a different one: it allows text only. At temperature 0 the same
        request has the same answer.
        """
        if about := self._about_itself(request):
            emit(TextDelta(about))
            return Reply(Assistant((Text(about),)), Usage(), self.name, self.provider, 0.0)
        small = self.small_request(request)
        reply, text = await self._ask(small, emit)
        if not text.strip() and (problem := self._problem(reply.message)):
            emit(Retrying(f"{problem}; tools are left out", 1, 0.0))
            used = reply.usage
            small = msgspec.structs.replace(small, reply_schema=reply_schema((), self._profile))
            reply, text = await self._ask(small, emit)
            reply = msgspec.structs.replace(reply, usage=used + reply.usage)
            if not text.strip() and (problem := self._problem(reply.message)):
                hint = "rephrase the request, or use a larger model: hermes model"
                body = reply.message.text[:200]
                raise ProviderError(problem, provider=self.provider, body=body, hint=hint)
        if text.strip():
            return self._text_reply(reply, text, request, emit)
        [(name, arguments)] = msgspec.json.decode(reply.message.text).items()
        encoded = _encode_json(arguments)
        call = ToolCall(made_call_id(name, encoded, len(request.messages)), name, encoded)
        return msgspec.structs.replace(reply, message=Assistant((call,), "tool_calls"))

    async def _ask(self, request: ModelRequest, emit: EmitModelEvent) -> tuple[Reply, str]:
        """Return the reply and the text for the user in it, which is emitted as it arrives."""
        reader, tokens = ReplyTextReader(), 0

        def decode(event: ModelEvent) -> None:
            nonlocal tokens
            if not isinstance(event, TextDelta):
                emit(event)
                return
            tokens += 1
            if text := reader.feed(event.text):
                emit(TextDelta(text))
            if is_looping(reader.json):
                raise _Looping

        try:
            reply = await self._inner.call(request, decode)
        except _Looping:
            # The runtime reports its count only at the end of a stream.
            usage = Usage(input=_estimate(list(request.messages), self._profile), output=tokens)
            message = Assistant((Text(reader.json),), "length")
            return Reply(message, usage, self.name, self.provider, 0.0), reader.text
        if rest := reader.feed(reply.message.text[len(reader.json) :]):
            emit(TextDelta(rest))
        return reply, reader.text

    def _text_reply(
        self, reply: Reply, text: str, request: ModelRequest, emit: EmitModelEvent
    ) -> Reply:
        """Return `text`, which was emitted, as the reply. A cut text is an answer too."""
        added, last = "", request.messages[-1] if request.messages else None
        if reply.message.finish_reason == "length" or len(text) >= self._profile.max_text:
            added = f" {CUT}"
        elif text.rstrip().endswith(":") and isinstance(last, ToolResult):
            # Small models often stop after "The files are:", so the list is added.
            added = f"\n{shorten_result(last, self._profile)}"
        if added:
            emit(TextDelta(added))
        return msgspec.structs.replace(reply, message=Assistant((Text(text + added),)))

    def _about_itself(self, request: ModelRequest) -> str:
        """Return the fixed answer when the user asks what the assistant can do."""
        last = request.messages[-1] if request.messages else None
        if not (isinstance(last, User) and request.tools and self._profile.about_questions):
            return ""
        asked = " ".join(re.sub(r"[^\w\s']", " ", _said(last).lower()).split())
        if not re.fullmatch(self._profile.about_questions, asked):
            return ""
        return self._profile.about.replace("{model}", self.name)

    def _is_writing(self, messages: tuple[Message, ...]) -> bool:
        """Return whether the conversation is one request for a text that needs no tool."""
        asked = [message for message in messages if not isinstance(message, System)]
        if len(asked) != 1 or not isinstance(asked[0], User) or not self._profile.writing:
            return False
        return re.fullmatch(self._profile.writing, _said(asked[0]).strip().lower()) is not None

    def small_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request that is sent."""
        profile = self._profile
        specs = select_tools(request.tools, profile)
        if self._is_writing(request.messages):
            specs, profile = (), msgspec.structs.replace(profile, system=profile.writing_system)
        head = prompt_prefix(specs, profile)
        latest = latest_turn(request.messages)
        if latest and isinstance(latest[0], User):
            head += similar_examples(_said(latest[0])[:MAX_QUESTION], specs, profile)
        max_tokens = min(request.max_tokens or profile.max_tokens, profile.max_tokens)
        budget = profile.context - estimate_tokens(head, profile) - max_tokens - MARGIN
        allowed = () if self._must_reply(request.messages) else specs
        return ModelRequest(
            messages=head + fit_conversation(request.messages, profile, budget),
            max_tokens=max_tokens,
            temperature=0 if request.temperature is None else request.temperature,
            reply_schema=reply_schema(allowed, profile),
        )

    def _must_reply(self, messages: tuple[Message, ...]) -> bool:
        """Return True when the model repeats itself after the latest user message."""
        calls = [
            (call.name, canonical_arguments(call.arguments))
            for message in latest_turn(messages)
            if isinstance(message, Assistant)
            for call in message.calls
        ]
        most = max(Counter(calls).values(), default=0)
        return most >= self._profile.same_call or len(calls) >= self._profile.max_calls

    def _problem(self, message: Assistant) -> str:
        """Return why the answer is not a complete call; empty when it is one."""
        cut = " (it was cut off)" if message.finish_reason == "length" else ""
        try:
            answer = msgspec.json.decode(message.text, type=dict[str, dict[str, Any]])
        except msgspec.DecodeError:
            return f"the answer of {self.name} is not the JSON it was asked for{cut}"
        if len(answer) != 1 or REPLY in answer:
            return f"the answer of {self.name} is not one call or one reply"
        [arguments] = answer.values()
        for name, value in arguments.items():
            long = name in self._profile.long_parameters
            limit = self._profile.max_text if long else self._profile.max_argument
            if isinstance(value, str) and len(value) >= limit:
                return f"the call of {self.name} is too long (it was cut off)"
        return ""

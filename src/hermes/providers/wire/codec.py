"""What the dialects share: encoding of JSON fragments, cache marks, effort and reply building."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import msgspec

from hermes.core.errors import ConfigError, ContentRefused, ReplyInvalid, StreamCut
from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    ToolCall,
    ToolResult,
    User,
    WireForm,
    made_call_id,
)
from hermes.core.model import Reply, ToolSpec, Usage
from hermes.providers.endpoints import ReasoningFormat, Target
from hermes.util.lazy import late_pattern

EMPTY_ARRAY = b"[]"
_SAFE_ID = late_pattern(r"[a-zA-Z0-9_-]{1,64}")


def join_arrays(arrays: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """Join JSON arrays without decoding them."""
    inner = [bytes(array)[1:-1] for array in arrays]
    return msgspec.Raw(b"[" + b",".join([part for part in inner if part]) + b"]")


@lru_cache(maxsize=64)
def encode_tools(
    form: Callable[[ToolSpec], dict[str, Any]], tools: tuple[ToolSpec, ...]
) -> msgspec.Raw:
    """Encode the tools with `form`, once for all calls that offer the same tools."""
    return msgspec.Raw(msgspec.json.encode([form(spec) for spec in tools]))


def safe_call_id(call_id: str) -> str:
    """Return an id that every endpoint accepts, the same for a call and its result."""
    return call_id if _SAFE_ID.fullmatch(call_id) else made_call_id("", call_id, 0)


def object_arguments(arguments: str) -> msgspec.Raw:
    """Return arguments as a JSON object with sorted keys, for APIs that require an object."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        value = arguments
    if not isinstance(value, dict):
        value = {"arguments": value}
    return msgspec.Raw(msgspec.json.encode(value, order="sorted"))


def split_system(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Split off the system messages at the start, for APIs that take them in a field."""
    others = (at for at, message in enumerate(messages) if not isinstance(message, System))
    count = next(others, len(messages))
    return messages[:count], messages[count:]


def parse_data_url(url: str) -> tuple[str, str] | None:
    """Return media type and base64 data of an image; None for the address of one."""
    kind, comma, data = url.partition(",")
    if not (comma and kind.startswith("data:")):
        return None
    return kind.removeprefix("data:").partition(";")[0] or "image/png", data


class IncrementalEncoder:
    """Encodes a conversation that grows from request to request.

    Messages that were sent before are only compared by identity, not looked up again.
    """

    def __init__(self, form: WireForm) -> None:
        self._form = form
        self._messages: list[Message] = []
        self._encoded: list[msgspec.Raw] = []

    def encode(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        """Return the encoded messages as a new list."""
        same = len(messages) >= len(self._messages) and all(map(is_, self._messages, messages))
        if not same:
            self._messages, self._encoded = [], []
        new = messages[len(self._messages) :]
        self._messages += new
        self._encoded += [message.wire(self._form) for message in new]
        return self._encoded[:]


# Reasoning effort, in the fields of the endpoint.

THINKING_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768}
"""Thinking tokens for endpoints that take a number."""
MIN_THINKING_BUDGET = 1024


def effort_fields(form: ReasoningFormat, effort: str) -> dict[str, Any]:
    """Return the request fields for `effort`; none when there is nothing to request."""
    return _EFFORT_FIELDS[form](effort) if effort else {}


def _budget_fields(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": THINKING_BUDGETS.get(effort, 8192)}}


def _adaptive_fields(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    # Newer models omit their thinking unless it is requested.
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low" if effort == "minimal" else effort},
    }


_EFFORT_FIELDS: dict[ReasoningFormat, Callable[[str], dict[str, Any]]] = {
    "": lambda _: {},
    "effort": lambda effort: {"reasoning_effort": effort},
    "object": lambda effort: {"reasoning": {"effort": effort}},
    "budget": _budget_fields,
    "adaptive": _adaptive_fields,
    "switch": lambda effort: {"thinking": {"type": "disabled" if effort == "none" else "enabled"}},
    "enable_thinking": lambda effort: {"enable_thinking": effort != "none"},
}


# Prompt-cache marks: `cache_control` on the system prompt and on the last messages. A mark asks the
# endpoint to cache everything before it; an endpoint accepts four.

MAX_CACHE_MARKS = 4


def cache_ttl_of(target: Target) -> str:
    """Return the lifetime of marked prefixes; empty when nothing is marked."""
    return target.cache_ttl if target.profile.cache_marks else ""


def cache_control(mark: str) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if mark == "1h" else {"type": "ephemeral"}


def has_content(message: Message) -> bool:
    """Return whether the message has a block that can carry a mark. Thinking cannot."""
    match message:
        case System():
            return bool(message.text.strip())
        case User():
            return any(isinstance(part, Image) or part.text.strip() for part in message.parts)
        case Assistant():
            return bool(message.text.strip() or message.calls)
        case ToolResult():
            return True


def last_positions(can_carry: Sequence[bool], slots: int) -> set[int]:
    """Return the positions of the last `slots` true values."""
    places = [position for position, can in enumerate(can_carry) if can]
    return set(places[-slots:]) if slots else set()


# The documented helper for plugins and scripts: marks on OpenAI-format dicts.

TTLS = ("5m", "1h")


def apply_anthropic_cache_control(
    api_messages: Sequence[dict[str, Any]], cache_ttl: str = "5m", native_anthropic: bool = False
) -> list[dict[str, Any]]:
    """Return the messages with the system prompt and the last three others marked.

    The input is not changed. A message that cannot carry a mark gives its slot to an earlier one.
    """
    if cache_ttl not in TTLS:
        raise ConfigError(
            f"a prompt cache cannot be kept for {cache_ttl!r}",
            hint=f"prompt_caching.cache_ttl is one of {', '.join(TTLS)}",
        )
    marked = list(api_messages)
    mark = cache_control(cache_ttl)
    slots, first = MAX_CACHE_MARKS, 0
    if marked and marked[0].get("role") == "system":
        first = 1
        if (system := _marked(marked[0], mark, native=native_anthropic)) is not None:
            marked[0], slots = system, slots - 1
        slots = min(slots, MAX_CACHE_MARKS - 1)
    for place in range(len(marked) - 1, first - 1, -1):
        if not slots:
            break
        if (carrier := _marked(marked[place], mark, native=native_anthropic)) is not None:
            marked[place], slots = carrier, slots - 1
    return marked


def _marked(
    message: dict[str, Any], mark: dict[str, str], *, native: bool
) -> dict[str, Any] | None:
    """Return a marked copy; None when the message cannot carry a mark."""
    content = message.get("content")
    if message.get("role") == "tool":
        return {**message, "cache_control": mark} if native else None
    if content is None or content == "":
        return {**message, "cache_control": mark}
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, "cache_control": mark}]}
    if not isinstance(content, list) or not content or not isinstance(content[-1], dict):
        return None
    return {**message, "content": [*content[:-1], {**content[-1], "cache_control": mark}]}


# Replies.

_FINISH_WORDS = {
    "stop": "stop end_turn stop_sequence eos eos_token end complete",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    # `pause_turn`: the endpoint stopped midway and would continue on request.
    "length": "length max_tokens max_output_tokens max_completion_tokens model_length"
    " model_context_window_exceeded pause_turn",
    "content_filter": "content_filter refusal safety sensitive recitation",
}
FINISH_REASONS = {word: reason for reason, words in _FINISH_WORDS.items() for word in words.split()}
"""Finish reasons of the endpoints, mapped to those of Hermes."""


class ReplyBuilder:
    """Collects the parts of a reply and builds the `Reply`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[AssistantPart] = []
        self._ids: set[str] = set()

    def add(self, part: AssistantPart) -> None:
        self._parts.append(part)

    def add_call(
        self, call_id: str, name: str, arguments: str, extra: dict[str, Any] | None = None
    ) -> None:
        """Add a tool call. One without a unique id gets a deterministic one."""
        if not call_id or call_id in self._ids:
            call_id = made_call_id(name, arguments, len(self._ids))
        self._ids.add(call_id)
        self.add(ToolCall(call_id, name, arguments or "{}", extra))

    def build(
        self, finish: str | None, usage: Usage | None, cost_usd: float | None = None
    ) -> Reply:
        """Return the reply. `finish` is None when the endpoint did not report the end."""
        provider = self._target.provider
        if finish is None:
            if self._parts:
                raise StreamCut(f"{provider} cut the reply short", provider=provider)
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)
        finish = FINISH_REASONS.get(finish.lower(), finish)
        if finish in ("stop", "tool_calls"):
            finish = "tool_calls" if self._ids else "stop"
        if not self._parts and finish == "content_filter":
            raise content_refused(provider, "the reply was filtered out")
        if not self._parts and finish != "length":  # cut before its first part
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)
        price = self._target.profile.price
        if cost_usd is None and price is not None and usage is not None:
            cost_usd = price.cost(usage)
        message = Assistant(tuple(self._parts), finish)
        return Reply(message, usage or Usage(), self._target.model, provider, cost_usd)


def content_refused(provider: str, explanation: str) -> ContentRefused:
    """Return the error for a refusal; `explanation` is the model's or endpoint's explanation."""
    explanation = " ".join(explanation.split())
    message = f"{provider} declined to answer" + (f": {explanation}" if explanation else "")
    return ContentRefused(
        message,
        provider=provider,
        body=explanation,
        hint="rephrase the request or choose another model",
    )


def decode_json(decoder: "msgspec.json.Decoder[Any]", data: bytes, provider: str) -> Any:
    """Decode one event or body. Raises `ReplyInvalid` when it does not have the expected form."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not data.strip():
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider) from error
        start = data[:80].decode("utf-8", "replace")
        raise ReplyInvalid(
            f"{provider} sent a reply that cannot be read ({error}): {start!r}", provider=provider
        ) from error


Number = float | None  #: A token count as endpoints send it.


def token_count(number: Number) -> int:
    """Return a token count; 0 when the endpoint sent none."""
    return int(number or 0)


# Thinking inside the text, between tags.

_CLOSING_TAGS = {"<think>": "</think>", "<REASONING_SCRATCHPAD>": "</REASONING_SCRATCHPAD>"}


class ThinkTagSplitter:
    """Splits streamed text into text and thinking.

    A tag may be split over fragments. A tag after a backtick is quoted and stays text. A block that
    is never closed is thinking if it began a line (the reply was cut), and text if it began inside
    a line.
    """

    def __init__(self) -> None:
        self.visible: list[str] = []
        self.thinking: list[str] = []
        self._held = ""  #: End of the last fragment that may be the start of a tag.
        self._opening = ""  #: The open tag; empty outside.
        self._inline = False
        self._block: list[str] = []  #: Thinking since that tag.
        self._last = "\n"  #: Last character of the text.

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what `piece` adds to the text and to the thinking."""
        if not (self._held or self._opening) and "<" not in piece:
            return self._add_text(piece), ""
        text, self._held = self._held + piece, ""
        visible, thinking = "", ""
        while text:
            if self._opening:
                more, text = self._inside(text)
                thinking += more
            else:
                more, text = self._outside(text)
                visible += more
        return visible, thinking

    def end(self) -> str:
        """Return text that was held back, after the last fragment."""
        held, self._held = self._held, ""
        if not self._opening:
            return self._add_text(held)
        self._block.append(held)
        block, opening = "".join(self._block), self._opening
        self._opening = ""
        if self._inline:
            return self._add_text(opening + block)
        self.thinking.append(block)
        return ""

    def _outside(self, text: str) -> tuple[str, str]:
        """Return the text up to the next tag, and what follows the tag."""
        found = [(at, tag) for tag in _CLOSING_TAGS if (at := text.find(tag)) >= 0]
        if not found:
            text, self._held = _split_partial_tag(text, *_CLOSING_TAGS)
            return self._add_text(text), ""
        at, tag = min(found)
        before = text[at - 1] if at else self._last
        if before == "`":
            return self._add_text(text[: at + len(tag)]), text[at + len(tag) :]
        visible = self._add_text(text[:at])
        self._opening, self._block = tag, []
        self._inline = self._last != "\n"
        return visible, text[at + len(tag) :]

    def _inside(self, text: str) -> tuple[str, str]:
        """Return the thinking up to the closing tag, and what follows it."""
        closing = _CLOSING_TAGS[self._opening]
        thinking, tag, rest = text.partition(closing)
        if not tag:
            thinking, self._held = _split_partial_tag(thinking, closing)
        self._block.append(thinking)
        if tag:
            self.thinking.append("".join(self._block))
            self._opening, self._last = "", "\n"
            rest = rest.lstrip() if not self.visible else rest
        return thinking, rest

    def _add_text(self, text: str) -> str:
        if self.thinking and not self.visible:
            text = text.lstrip()  # only whitespace separates the thinking from the answer
        if text:
            self.visible.append(text)
            self._last = text[-1]
        return text


def _split_partial_tag(text: str, *tags: str) -> tuple[str, str]:
    """Split off the end of `text` if it may be the start of a tag."""
    at = text.rfind("<")
    if at >= 0 and any(tag.startswith(text[at:]) for tag in tags):
        return text[:at], text[at:]
    return text, ""

"""Encoded JSON, put together without encoding it again."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import msgspec

from hermes.core.errors import ContentRefused, ReplyInvalid, StreamCut
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
)
from hermes.core.model import Reply, ToolSpec
from hermes.core.openai_format import made_call_id
from hermes.core.usage import Usage
from hermes.providers.endpoints import ReasoningFormat
from hermes.providers.target import Target

EMPTY_ARRAY = b"[]"
_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def join_arrays(arrays: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """One JSON array with the elements of all."""
    inner = [bytes(array)[1:-1] for array in arrays]
    return msgspec.Raw(b"[" + b",".join([part for part in inner if part]) + b"]")


@lru_cache(maxsize=64)
def encode_tools(
    form: Callable[[ToolSpec], dict[str, Any]], tools: tuple[ToolSpec, ...]
) -> msgspec.Raw:
    """The tools as `form` writes them, encoded once for all the calls that offer them."""
    return msgspec.Raw(msgspec.json.encode([form(spec) for spec in tools]))


def safe_call_id(call_id: str) -> str:
    """An id that every endpoint takes; the same for a call and its result."""
    return call_id if _SAFE_ID.fullmatch(call_id) else made_call_id("", call_id, 0)


class IncrementalEncoder:
    """The wire forms of a conversation that grows from request to request: what was sent before is
    only compared, not looked up again."""

    def __init__(self, form: WireForm) -> None:
        self._form = form
        self._messages: list[Message] = []
        self._encoded: list[msgspec.Raw] = []

    def encoded(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        """A list of the caller's own."""
        same = len(messages) >= len(self._messages) and all(map(is_, self._messages, messages))
        if not same:
            self._messages, self._encoded = [], []
        new = messages[len(self._messages) :]
        self._messages += new
        self._encoded += [message.wire(self._form) for message in new]
        return self._encoded[:]


# How hard the model should think, in the words of its endpoint.

THINKING_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768}
"""Tokens of thinking for endpoints that want a number."""
MIN_THINKING_BUDGET = 1024


def effort_fields(form: ReasoningFormat, effort: str) -> dict[str, Any]:
    """The fields of the request that ask for `effort`; none when there is nothing to ask."""
    return _EFFORT_FIELDS[form](effort) if effort else {}


def _budget_fields(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": THINKING_BUDGETS.get(effort, 8192)}}


def _adaptive_fields(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    # Newer models leave their thoughts out unless they are asked for.
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
    "switch": lambda effort: {
        "thinking": {"type": "disabled" if effort == "none" else "enabled"},
    },
    "enable_thinking": lambda effort: {"enable_thinking": effort != "none"},
}


# Prompt-cache marks: `cache_control` on the system prompt and on the last messages.
#
# A mark says that everything before it is worth keeping. An endpoint takes four.

MAX_CACHE_MARKS = 4


def cache_ttl_of(target: Target) -> str:
    """How long marked prefixes are kept, or empty when nothing is to be marked."""
    return target.cache_ttl if target.profile.cache_marks else ""


def cache_control(mark: str) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if mark == "1h" else {"type": "ephemeral"}


def has_content(message: Message) -> bool:
    """Whether there is a block that can carry a mark; a thought cannot."""
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
    """The positions of the last `slots` places that can carry a mark."""
    places = [position for position, can in enumerate(can_carry) if can]
    return set(places[-slots:]) if slots else set()


# What the replies of all wires have in common.

_FINISH_WORDS = {
    "stop": "stop end_turn stop_sequence eos eos_token end complete",
    "tool_calls": "tool_calls tool_call tool_use function_call",
    # `pause_turn`: the endpoint stopped half-way and would go on if it were asked to.
    "length": "length max_tokens max_output_tokens max_completion_tokens model_length"
    " model_context_window_exceeded pause_turn",
    "content_filter": "content_filter refusal safety sensitive recitation",
}
FINISH_REASONS = {word: reason for reason, words in _FINISH_WORDS.items() for word in words.split()}
"""Why a reply ended: what endpoints say, and what it is called here."""


class ReplyBuilder:
    """The end of reading: the parts and figures that make a `Reply`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts: list[AssistantPart] = []
        self._ids: set[str] = set()

    def add(self, part: AssistantPart) -> None:
        self._parts.append(part)

    def add_call(
        self, call_id: str, name: str, arguments: str, extra: dict[str, Any] | None = None
    ) -> None:
        """A tool call; one without an id of its own gets one, always the same."""
        if not call_id or call_id in self._ids:
            call_id = made_call_id(name, arguments, len(self._ids))
        self._ids.add(call_id)
        self.add(ToolCall(call_id, name, arguments or "{}", extra))

    def finished(
        self, finish: str | None, usage: Usage | None, cost_usd: float | None = None
    ) -> Reply:
        """The whole reply. `finish` is None when the endpoint never said that it was done."""
        provider = self._target.provider
        if finish is None:
            if self._parts:
                raise StreamCut(f"{provider} cut the reply short", provider=provider)
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)
        finish = FINISH_REASONS.get(finish.lower(), finish)
        if finish in ("stop", "tool_calls"):
            finish = "tool_calls" if self._ids else "stop"
        if not self._parts:
            self._nothing(finish)
        price = self._target.profile.price
        if cost_usd is None and price is not None and usage is not None:
            cost_usd = price.cost(usage)
        message = Assistant(tuple(self._parts), finish)
        return Reply(message, usage or Usage(), self._target.model, provider, cost_usd)

    def _nothing(self, finish: str) -> None:
        """A reply without any part is only in order when its length was the reason."""
        provider = self._target.provider
        if finish == "content_filter":
            raise content_refused(provider, "the reply was filtered out")
        if finish != "length":
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider)


def content_refused(provider: str, said: str) -> ContentRefused:
    """The model or its endpoint will not answer; `said` is how it put it."""
    said = " ".join(said.split())
    message = f"{provider} declined to answer" + (f": {said}" if said else "")
    return ContentRefused(
        message, provider=provider, body=said, hint="rephrase the request or choose another model"
    )


def decode_json(decoder: "msgspec.json.Decoder[Any]", data: bytes, provider: str) -> Any:
    """One event or body. Raises `ReplyInvalid` when it is not what the wire sends."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not data.strip():
            raise ReplyInvalid(f"{provider} sent an empty reply", provider=provider) from error
        start = data[:80].decode("utf-8", "replace")
        raise ReplyInvalid(
            f"{provider} sent a reply that cannot be read ({error}): {start!r}", provider=provider
        ) from error


def token_count(number: float | None) -> int:
    """A number of tokens as an endpoint wrote it, or did not."""
    return int(number or 0)


# Thinking that a model writes into its text, between tags.

_CLOSING_TAGS = {
    "<think>": "</think>",
    "<REASONING_SCRATCHPAD>": "</REASONING_SCRATCHPAD>",
}


class ThinkTagSplitter:
    """Takes a text in pieces and parts what is said from what is thought.

    A tag may be torn over pieces. A tag in backticks is being talked about, so it stays. A block
    that is never closed is thinking when it began a line (the reply was cut), and text when it
    stood inside a sentence.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self._held = ""
        """The end of the last piece, when it may be the beginning of a tag."""
        self._opening = ""
        """The tag we are inside of."""
        self._inline = False
        self._block: list[str] = []
        """What was thought since that tag."""
        self._last = "\n"
        """The last character said."""

    def feed(self, piece: str) -> tuple[str, str]:
        """What `piece` adds to what is said, and to what is thought."""
        if not (self._held or self._opening) and "<" not in piece:
            return self._say(piece), ""
        text, self._held = self._held + piece, ""
        said, thought = "", ""
        while text:
            if self._opening:
                more, text = self._inside(text)
                thought += more
            else:
                more, text = self._outside(text)
                said += more
        return said, thought

    def end(self) -> str:
        """What is said after all, once no more pieces come."""
        held, self._held = self._held, ""
        if not self._opening:
            return self._say(held)
        self._block.append(held)
        block, opening = "".join(self._block), self._opening
        self._opening = ""
        if self._inline:
            return self._say(opening + block)
        self.thought.append(block)
        return ""

    def _outside(self, text: str) -> tuple[str, str]:
        """What is said up to the next tag, and what comes after that tag."""
        found = [(at, tag) for tag in _CLOSING_TAGS if (at := text.find(tag)) >= 0]
        if not found:
            text, self._held = _split_partial_tag(text, *_CLOSING_TAGS)
            return self._say(text), ""
        at, tag = min(found)
        before = text[at - 1] if at else self._last
        if before == "`":
            return self._say(text[: at + len(tag)]), text[at + len(tag) :]
        said = self._say(text[:at])
        self._opening, self._block = tag, []
        self._inline = self._last != "\n"
        return said, text[at + len(tag) :]

    def _inside(self, text: str) -> tuple[str, str]:
        """What is thought up to the closing tag, and what comes after it."""
        closing = _CLOSING_TAGS[self._opening]
        thought, tag, rest = text.partition(closing)
        if not tag:
            thought, self._held = _split_partial_tag(thought, closing)
        self._block.append(thought)
        if tag:
            self.thought.append("".join(self._block))
            self._opening, self._last = "", "\n"
            rest = rest.lstrip() if not self.said else rest
        return thought, rest

    def _say(self, text: str) -> str:
        if self.thought and not self.said:
            text = text.lstrip()  # Between the thinking and the answer there is only space.
        if text:
            self.said.append(text)
            self._last = text[-1]
        return text


def _split_partial_tag(text: str, *tags: str) -> tuple[str, str]:
    """`text` without its end, and the end, when that may be the beginning of a tag."""
    at = text.rfind("<")
    if at >= 0 and any(tag.startswith(text[at:]) for tag in tags):
        return text[:at], text[at:]
    return text, ""

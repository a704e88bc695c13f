"""Test the abilities of a model with a few tiny calls."""

import base64
import json
import struct
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import msgspec

from hermes.core import errors
from hermes.core.messages import Image, System, Text, User
from hermes.core.model import (
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
)
from hermes.providers import ModelProfile

Verdict = Literal["works", "does not", "not tried", "failed"]

MAX_TOKENS = 2048  #: Tokens for an answer: a reasoning model needs some before its first word.
PREFIX_WORDS = 2000  #: About 2,500 tokens, which most endpoints cache.

_HOPELESS = (
    errors.CredentialMissing,
    errors.CredentialRefused,
    errors.CredentialsExhausted,
    errors.ModelNotFound,
    errors.QuotaSpent,
    errors.Unreachable,
)
"""After one of these errors no other call can succeed."""

_TOOL = ToolSpec(
    "report_colour",
    "Report a colour.",
    {
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)


class ProbeFinding(msgspec.Struct, frozen=True):
    name: str
    verdict: Verdict
    detail: str = ""
    cost: float | None = None  #: US dollars; None if the price is not known or nothing was spent.


class ProbeCall(msgspec.Struct, frozen=True):
    reply: Reply
    deltas: int
    first: float | None  #: Seconds to the first delta.
    total: float


class Probe:
    def __init__(self, model: Model, profile: ModelProfile, monotonic: Callable[[], float]) -> None:
        self._model, self._profile, self._monotonic = model, profile, monotonic

    async def call(self, request: ModelRequest) -> ProbeCall:
        start = self._monotonic()
        deltas: list[float] = []  # when each arrived

        def emit(event: ModelEvent) -> None:
            if isinstance(event, TextDelta | ReasoningDelta):
                deltas.append(self._monotonic() - start)

        reply = await self._model.call(request, emit)
        first = deltas[0] if deltas else None
        return ProbeCall(reply, len(deltas), first, self._monotonic() - start)

    async def answer(self) -> list[ProbeFinding]:
        """Check three abilities with one call."""
        call = await self.call(_say("Reply with the single word: ready"))
        text = " ".join(call.reply.message.text.split())[:60]
        usage = call.reply.usage
        streamed = call.deltas > 0 and call.first is not None
        took = f"{call.total:.1f}s"
        if streamed and call.first is not None:
            took = f"first word after {call.first:.1f}s, all after {took}"
        counts = f"{usage.prompt} tokens read, {usage.output} written"
        answer = f"{text!r}, {took}" if text else f"it said nothing ({took})"
        pieces = f"the answer came in {call.deltas} pieces" if streamed else "it came in one piece"
        uncounted = "no tokens are reported, so costs cannot be counted"
        return [
            self._finding("answer", bool(text), answer, call),
            self._finding("streaming", streamed, pieces),
            self._finding("usage", bool(usage.total), counts if usage.total else uncounted),
        ]

    async def tools(self) -> ProbeFinding:
        if not self._profile.tools:
            return ProbeFinding("tools", "not tried", "the model is known to have none")
        request = _say("Call the tool report_colour with the colour blue. Say nothing else.")
        call = await self.call(msgspec.structs.replace(request, tools=(_TOOL,)))
        calls = call.reply.message.calls
        if not calls:
            return self._finding("tools", False, "it answered in words", call)
        made = f"{calls[0].name}({calls[0].arguments})"[:80]
        valid = calls[0].name == _TOOL.name and _is_colour(calls[0].arguments)
        detail = f"it called {made}" + ("" if valid else ", which is not a valid call")
        return self._finding("tools", valid, detail, call)

    async def images(self) -> ProbeFinding:
        if self._profile.images is False:
            return ProbeFinding("images", "not tried", "the model is known to see none")
        picture = Image(f"data:image/png;base64,{base64.b64encode(one_colour_png()).decode()}")
        question = Text("What colour is this picture? Answer with one word.")
        call = await self.call(ModelRequest((User((question, picture)),), max_tokens=MAX_TOKENS))
        text = " ".join(call.reply.message.text.split())[:60]
        return self._finding(
            "images", "red" in text.lower(), f"it saw a red picture as {text!r}", call
        )

    async def reasoning(self) -> ProbeFinding:
        """Check reasoning, also if no way to request it is known: it may come by default."""
        request = _say("A bat and a ball cost 1.10 together, the bat 1.00 more. What is the ball?")
        effort = "low" if self._profile.reasoning else ""
        asked = msgspec.structs.replace(request, reasoning_effort=effort, max_tokens=4 * MAX_TOKENS)
        call = await self.call(asked)
        thought, tokens = call.reply.message.thinking, call.reply.usage.reasoning
        if thought or tokens:
            seen = f"{tokens} tokens of thinking" if tokens else "its thoughts came along"
            return self._finding("reasoning", True, seen, call)
        detail = "no thinking came back" + ("" if effort else "; no way to ask for it is known")
        return self._finding("reasoning", False, detail, call)

    async def caching(self) -> ProbeFinding:
        """Send the same long prompt twice, with a different end."""
        system = System(" ".join(f"line {number}" for number in range(PREFIX_WORDS // 2)))

        async def ask(word: str) -> ProbeCall:
            messages = (system, User.say(f"Reply with the single word: {word}"))
            return await self.call(ModelRequest(messages, max_tokens=MAX_TOKENS))

        first, second = await ask("one"), await ask("two")
        costs, usage = (self._cost(first), self._cost(second)), second.reply.usage
        cost = None if None in costs else sum(filter(None, costs))
        detail = (
            f"nothing of {usage.prompt} tokens came from the cache; longer prompts may be cached"
        )
        if usage.cache_read:
            detail = f"{usage.cache_read} of {usage.prompt} tokens came from the cache"
        finding = self._finding("caching", bool(usage.cache_read), detail)
        return msgspec.structs.replace(finding, cost=cost)

    def _finding(
        self, name: str, works: bool, detail: str, call: ProbeCall | None = None
    ) -> ProbeFinding:
        cost = None if call is None else self._cost(call)
        return ProbeFinding(name, "works" if works else "does not", detail, cost)

    def _cost(self, call: ProbeCall) -> float | None:
        if call.reply.cost_usd is not None:
            return call.reply.cost_usd
        price = self._profile.price
        return price.cost(call.reply.usage) if price else None


async def probe(
    model: Model, profile: ModelProfile, *, monotonic: Callable[[], float] = time.monotonic
) -> AsyncIterator[ProbeFinding]:
    """Check the abilities one after the other; a refusal is a finding. If the first shows that
    no call can succeed, the others are skipped."""
    trial = Probe(model, profile, monotonic)
    try:
        for finding in await trial.answer():
            yield finding
        hopeless = ""
    except errors.ProviderError as error:
        yield ProbeFinding("answer", "failed", str(error))
        hopeless = "no call succeeds" if isinstance(error, _HOPELESS) else ""
    checks: dict[str, Callable[[], Awaitable[ProbeFinding]]] = {
        "tools": trial.tools,
        "images": trial.images,
        "reasoning": trial.reasoning,
        "caching": trial.caching,
    }
    for name, check in checks.items():
        if hopeless:
            yield ProbeFinding(name, "not tried", hopeless)
            continue
        try:
            yield await check()
        except (errors.RequestRefused, errors.ContentRefused) as error:
            yield ProbeFinding(name, "does not", f"refused: {error}")
        except errors.ProviderError as error:
            yield ProbeFinding(name, "failed", str(error))


def one_colour_png(size: int = 64, colour: bytes = b"\xff\x00\x00") -> bytes:

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\x00" + colour * size) * size)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _say(text: str) -> ModelRequest:
    return ModelRequest((User.say(text),), max_tokens=MAX_TOKENS)


def _is_colour(arguments: str) -> bool:
    try:
        data = json.loads(arguments)
    except ValueError:
        return False
    return isinstance(data, dict) and isinstance(data.get("colour"), str)

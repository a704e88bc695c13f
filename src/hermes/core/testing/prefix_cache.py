"""A simulated prompt cache: what a session costs when its prefix stays the same, or does not.

A token is four bytes of the prompt. Two styles, as the real services do it: automatic (blocks of
128 tokens from 1,024 on) and explicit (up to the blocks marked with `cache_control`).
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from hermes.core.model import FREE, Price, Usage
from hermes.core.testing.wires import Wire

BYTES_PER_TOKEN = 4
MINIMUM_TOKENS = 1024
BLOCK_TOKENS = 128
LOOKBACK_BLOCKS = 20  #: How far before a breakpoint an explicit cache looks for an earlier entry.
MOST_BREAKPOINTS = 4
TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}


class Block(msgspec.Struct, frozen=True):
    """A piece of the prompt: a tool, or one content block of a message."""

    data: bytes
    ttl: float = 0.0
    """Seconds to keep the prefix that ends here; 0 without a `cache_control` mark."""


class SessionReport(msgspec.Struct, frozen=True):
    calls: int
    usage: Usage
    cost: float  #: US dollars.

    @property
    def read_share(self) -> float:
        """Share of the prompt tokens that came from the cache, from 0 to 1."""
        return self.usage.cache_read / self.usage.prompt if self.usage.prompt else 0.0

    def __str__(self) -> str:
        usage = self.usage
        return (
            f"{self.calls} calls: {usage.input} input, {usage.cache_read} cache read, "
            f"{usage.cache_write} cache write, {usage.output} output tokens; "
            f"{self.read_share:.0%} of the prompt read from the cache; ${self.cost:.4f}"
        )


def session_report(calls: Sequence[Usage], price: Price = FREE) -> SessionReport:
    total = sum(calls, Usage())
    return SessionReport(len(calls), total, sum(price.cost(usage) for usage in calls))


class PrefixCache:
    """Prefixes seen lately, by digest, with the moment each is forgotten."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[bytes, tuple[float, float]] = {}

    def measure(self, wire: Wire, body: dict[str, Any]) -> Usage:
        """Return the prompt tokens of this request, and remember the prompt."""
        blocks = list(prompt_blocks(wire, body))
        seed = str(body.get("model")).encode()
        if any(block.ttl for block in blocks):
            return self._explicit(seed, blocks)
        if wire.automatic_cache:
            return self._automatic(seed, b"".join(block.data for block in blocks))
        return Usage(input=_tokens(sum(len(block.data) for block in blocks)))

    def _automatic(self, seed: bytes, prompt: bytes) -> Usage:
        size, tokens = BLOCK_TOKENS * BYTES_PER_TOKEN, _tokens(len(prompt))
        chunks = [prompt[at : at + size] for at in range(0, len(prompt) - size + 1, size)]
        if tokens < MINIMUM_TOKENS:
            return Usage(input=tokens)
        hits, unbroken = 0, True
        for digest in _chained(seed, chunks):
            unbroken = self._fresh(digest) and unbroken
            hits += unbroken
            self._keep(digest, TTL_SECONDS["5m"])
        read = hits * BLOCK_TOKENS if hits * BLOCK_TOKENS >= MINIMUM_TOKENS else 0
        return Usage(input=tokens - read, cache_read=read)

    def _explicit(self, seed: bytes, blocks: list[Block]) -> Usage:
        digests = list(_chained(seed, [block.data for block in blocks]))
        sizes: list[int] = []
        for block in blocks:
            sizes.append(len(block.data) + (sizes[-1] if sizes else 0))
        marks = [at for at, block in enumerate(blocks) if block.ttl]
        within = {at - back for at in marks for back in range(LOOKBACK_BLOCKS) if at >= back}
        found = next((at for at in sorted(within, reverse=True) if self._fresh(digests[at])), None)
        read = 0
        if found is not None:
            read = _tokens(sizes[found])
            self._keep(digests[found], self._kept[digests[found]][1])
        cached = read
        for at in marks:
            if _tokens(sizes[at]) >= MINIMUM_TOKENS:
                cached = max(cached, _tokens(sizes[at]))
                self._keep(digests[at], blocks[at].ttl)
        total = _tokens(sizes[-1])
        return Usage(input=total - cached, cache_read=read, cache_write=cached - read)

    def _fresh(self, digest: bytes) -> bool:
        return self._kept.get(digest, (0.0, 0.0))[0] > self._clock()

    def _keep(self, digest: bytes, ttl: float) -> None:
        self._kept[digest] = (self._clock() + ttl, ttl)


def prompt_blocks(wire: Wire, body: dict[str, Any]) -> Iterator[Block]:
    """Yield the prompt as the model reads it. A plain text equals a list of one text block."""
    for field in wire.prompt:
        for item in _listed(body.get(field)):
            if not isinstance(item, dict) or "content" not in item:
                yield _block(item)
                continue
            head = _block({key: value for key, value in item.items() if key != "content"})
            first, *rest = [_block(content) for content in _listed(item["content"])] or [Block(b"")]
            inner = [Block(head.data + first.data, first.ttl), *rest]
            inner[-1] = Block(inner[-1].data, inner[-1].ttl or head.ttl)
            yield from inner


def _listed(value: Any) -> list[Any]:
    if value is None or isinstance(value, list):
        return value or []
    return [{"type": "text", "text": value}]


def _block(value: Any) -> Block:
    """Return a block. The mark is not part of the prompt: moving it keeps the prefix."""
    if not isinstance(value, dict):
        return Block(msgspec.json.encode(value))
    mark = value.get("cache_control")
    data = {key: inner for key, inner in value.items() if key != "cache_control"}
    ttl = TTL_SECONDS[mark.get("ttl", "5m")] if mark else 0.0
    return Block(msgspec.json.encode(data), ttl)


def _chained(seed: bytes, datas: Sequence[bytes]) -> Iterator[bytes]:
    running = hashlib.sha256(seed)
    for data in datas:
        running.update(b"%d:" % len(data) + data)
        yield running.digest()


def _tokens(size: int) -> int:
    return size // BYTES_PER_TOKEN

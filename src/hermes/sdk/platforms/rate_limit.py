"""Limits how often a platform is called: one bucket for each chat and one for the platform, shared
by sends and edits.

A bucket holds as many tokens as calls are allowed. Each token returns when the platform's time span
has passed since it was taken, so no span of that length ever sees more calls than allowed.
"""

import asyncio
from collections import deque

from hermes.core.ports import Clock
from hermes.sdk.platforms.contract import RateLimit

PRUNE_AT = 256  #: Number of chats above which idle ones are removed.


class _Bucket:
    def __init__(self, rate: RateLimit) -> None:
        self.rate = rate
        self.taken: deque[float] = deque()
        self.paused_until = float("-inf")
        self.turn = asyncio.Lock()  #: Waiting calls are served in order.
        self.waiting = 0

    def delay(self, now: float) -> float:
        """Return the seconds until a token is available."""
        while self.taken and self.taken[0] + self.rate.seconds <= now:
            self.taken.popleft()
        full = len(self.taken) >= self.rate.count
        back = self.taken[0] + self.rate.seconds - now if full else 0.0
        return max(back, self.paused_until - now, 0.0)

    def is_idle(self, now: float) -> bool:
        """True if the bucket equals a new one and can be removed."""
        return self.delay(now) == 0.0 and not self.taken and not self.waiting


class RateLimiter:
    """The rate limits of one platform."""

    def __init__(self, per_chat: RateLimit, per_platform: RateLimit, clock: Clock) -> None:
        self._per_chat, self._clock = per_chat, clock
        self._all = _Bucket(per_platform)
        self._chats: dict[str, _Bucket] = {}
        self._prune_at = PRUNE_AT

    def __len__(self) -> int:
        """Number of chats remembered."""
        return len(self._chats)

    def is_ready(self, chat: str) -> bool:
        """True if a call could be made now; takes no token."""
        return self._delay(chat) == 0.0

    def try_take(self, chat: str, *, leave: int = 0) -> bool:
        """Take a token if one is available now and the chat has `leave` more (at most half of its
        bucket). For edits, which are skipped rather than queued and leave room for sends."""
        bucket = self._bucket(chat)
        if bucket.waiting or self._delay(chat) > 0.0:
            return False
        left = bucket.rate.count - len(bucket.taken) - 1
        if left < min(leave, bucket.rate.count // 2):
            return False
        self._take(bucket)
        return True

    async def acquire(self, chat: str) -> None:
        """Take a token, waiting in order for it."""
        bucket = self._bucket(chat)
        bucket.waiting += 1
        try:
            async with bucket.turn:
                while delay := self._delay(chat):
                    await self._clock.sleep(delay)
                self._take(bucket)
        finally:
            bucket.waiting -= 1

    def pause(self, chat: str, seconds: float) -> None:
        """Make no calls to the chat for this time, as the platform requested."""
        bucket = self._bucket(chat)
        bucket.paused_until = max(bucket.paused_until, self._clock.monotonic() + seconds)

    def _delay(self, chat: str) -> float:
        now = self._clock.monotonic()
        bucket = self._chats.get(chat)
        return max(self._all.delay(now), bucket.delay(now) if bucket else 0.0)

    def _take(self, bucket: _Bucket) -> None:
        now = self._clock.monotonic()
        bucket.taken.append(now)
        self._all.taken.append(now)

    def _bucket(self, chat: str) -> _Bucket:
        bucket = self._chats.get(chat)
        if bucket is None:
            if len(self._chats) >= self._prune_at:
                now = self._clock.monotonic()
                self._chats = {name: b for name, b in self._chats.items() if not b.is_idle(now)}
                self._prune_at = max(PRUNE_AT, 2 * len(self._chats))
            bucket = self._chats[chat] = _Bucket(self._per_chat)
        return bucket

"""No call goes out that a cap on money does not allow.

Before a call the most it may cost is set aside in the `Purse`: an estimate of the tokens read
(`policy.estimate`) at the dearest input price, and the longest reply at the output price. When that
does not fit but a useful reply does, the request goes out with a shorter `max_tokens`. What the
call really cost replaces the sum when the reply is there. So a cap stops a call before it begins,
and never in the middle of a reply.
"""

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from hermes.core.errors import BudgetSpent
from hermes.core.model import (
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolSpec,
)
from hermes.core.tokens import (
    REQUEST_TOKENS,
    message_tokens,
    messages_tokens,
    text_tokens,
    tools_tokens,
)
from hermes.core.usage import Price
from hermes.providers.policy.purse import Purse, Reservation
from hermes.providers.profile import Profile
from hermes.providers.wrapper import ModelWrapper

UNKNOWN_OUTPUT = 8192
"""Longest reply of a model of which nobody knows it; it is then asked for no more."""
USEFUL_REPLY = 256
"""A reply that must be shorter than this is not worth its input."""
MILLION = 1_000_000


class MeteredModel(ModelWrapper):
    """Calls `inner` as far as `purse` allows. Without a cap, or for a free model, it costs nothing.

    Raises `BudgetSpent` before the call. When a call fails or is cancelled, what was received of
    it counts as spent, since it was probably paid for.
    """

    def __init__(self, inner: Model, purse: Purse, profile: Profile) -> None:
        super().__init__(inner)
        self._purse, self._profile = purse, profile
        self._tools: tuple[tuple[ToolSpec, ...], int] = ((), 0)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        price = self._profile.price
        if not self._purse.limited or (price is not None and not _dearest(price)):
            return self._inner.stream(request)
        return self._metered(request, price)

    async def _metered(
        self, request: ModelRequest, price: Price | None
    ) -> AsyncGenerator[ModelEvent, None]:
        if price is None:
            raise self._price_unknown()
        tokens = self._input_tokens(request)
        bill = _Bill(price.for_prompt(tokens), tokens)
        reservation, request = await self._reserve(request, bill)
        try:
            async with aclosing(self._inner.stream(request)) as events:
                async for event in events:
                    if isinstance(event, TextDelta | ReasoningDelta):
                        bill.received += text_tokens(event.text)
                    elif isinstance(event, Reply):
                        self._settle(reservation, event, price, bill)
                    yield event
        finally:
            if reservation.open and bill.received:
                partial = min(bill.cost(bill.received), reservation.usd)
                self._purse.settle(reservation, partial, recorded=False)
            elif reservation.open:
                self._purse.release(reservation)

    async def _reserve(
        self, request: ModelRequest, bill: "_Bill"
    ) -> tuple[Reservation, ModelRequest]:
        """The money, and the request as it may go out."""
        known = [n for n in (request.max_tokens, self._profile.max_output) if n is not None]
        longest = min(known, default=UNKNOWN_OUTPUT)
        full, least = bill.cost(longest), bill.cost(min(longest, USEFUL_REPLY))
        reservation = await self._purse.reserve(full, least=least)
        if reservation.usd < full:
            longest = bill.affordable(reservation.usd)
        elif known:
            return reservation, request
        return reservation, msgspec.structs.replace(request, max_tokens=longest)

    def _settle(self, reservation: Reservation, reply: Reply, price: Price, bill: "_Bill") -> None:
        cost = reply.cost_usd or price.cost(reply.usage)
        if cost:
            self._purse.settle(reservation, cost)
        else:  # The endpoint did not count, so the estimate has to do.
            cost = bill.cost(message_tokens(reply.message))
            self._purse.settle(reservation, cost, recorded=False)

    def _input_tokens(self, request: ModelRequest) -> int:
        if self._tools[0] is not request.tools:
            self._tools = (request.tools, tools_tokens(request.tools))
        return REQUEST_TOKENS + messages_tokens(request.messages) + self._tools[1]

    def _price_unknown(self) -> BudgetSpent:
        key = f'providers.{self.provider}.models."{self.name}".price'
        return BudgetSpent(
            f"the price of {self.name} at {self.provider} is not known, so the caps on spending "
            "(budget.*) cannot be kept",
            hint=f"give its price for a million tokens: `hermes config set '{key}' "
            "'{input: 3, output: 15}'`",
        )


class _Bill(msgspec.Struct):
    """What one call may cost."""

    price: Price
    input_tokens: int
    received: int = 0
    """Tokens that have come so far."""

    @property
    def input_usd(self) -> float:
        price = self.price
        dearest = max(price.input, price.cache_read, price.cache_write)
        return self.input_tokens * dearest / MILLION

    def cost(self, output_tokens: int) -> float:
        return self.input_usd + output_tokens * self.price.output / MILLION

    def affordable(self, usd: float) -> int:
        """How many tokens of output `usd` pays for beside the input."""
        return math.floor((usd - self.input_usd) * MILLION / self.price.output)


def _dearest(price: Price) -> float:
    return max(price.input, price.output, price.cache_read, price.cache_write)

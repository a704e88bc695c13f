"""One connection to a local platform."""

from collections.abc import Awaitable, Callable

import msgspec

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    NotConnected,
    Receive,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.offering import kept
from hermes.gateway.platforms.local import wire
from hermes.gateway.platforms.local.line import Line, Streams

_REFUSALS: dict[str, Callable[[wire.Answer], AdapterError]] = {
    "credentials": lambda _: CredentialsRefused("the Local platform does not accept LOCAL_TOKEN"),
    "rate_limited": lambda answer: SendLater("too many messages", seconds=answer.seconds),
    "server_error": lambda _: SendLater("the local platform has a fault"),
    "chat_gone": lambda _: SendRefused("the chat is gone"),
    "empty": lambda _: SendRefused("a message must say something"),
    "unknown": lambda _: SendRefused("there is no such message"),
}


class Link(Connection):
    line: Line

    def __init__(
        self,
        context: AdapterContext,
        receive: Receive,
        place: tuple[str, str],
        reach: Callable[[], Awaitable[Streams]],
        event: Callable[[wire.Said], MessageEvent],
    ) -> None:
        """`place` is the socket and the token."""
        super().__init__(context, receive)
        self.identities, self._token = ("\0".join(place),), place[1]
        self._reach, self._event = reach, event

    async def open(self) -> None:
        self.line = Line(await self._reach(), self._said)
        self.ends.push_async_callback(self.line.close)
        await self.answer(lambda n: wire.Hello(n, "gateway", self._token))

    async def ask(self) -> None:
        await self.answer(wire.Ping)

    async def answer(self, question: Callable[[int], msgspec.Struct]) -> wire.Answer:
        """For what may be asked twice: a broken line is no matter of doubt."""
        try:
            return accepted(await self.line.ask(question))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error

    async def _said(self, said: wire.Said) -> None:
        word = wire.Kept if await kept(self.receive, self._event(said)) else wire.NotKept
        self.line.tell(word(said.id))


def accepted(answer: wire.Answer) -> wire.Answer:
    if not answer.error:
        return answer
    known = _REFUSALS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")

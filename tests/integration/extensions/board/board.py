"""A platform of a third party: a notice board in this process. It imports only `hermes.sdk`."""

import asyncio
from collections.abc import Sequence

from hermes.sdk.platforms import (
    AdapterContext,
    Capabilities,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialField,
    CredentialsRefused,
    MessageDialect,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    PlatformManifest,
    Receive,
    SendLater,
    SendUnsure,
    SessionSource,
    deliver_once,
)

TOKEN = "board-token-1"


class Board:
    """The service."""

    def __init__(self) -> None:
        self.token, self.is_up = TOKEN, True
        self.unread: list[MessageEvent] = []
        self.shown: dict[str, tuple[str, OutgoingMessage]] = {}
        """Chat and message, by the key of the message."""
        self.faults: list[str] = []

    def post(self, chat: str, message: OutgoingMessage, key: str) -> None:
        fault = self.faults.pop() if self.faults else ""
        if fault == "server_error":
            raise SendLater("the board is full")
        if fault != "cut_before":
            self.shown.setdefault(key, (chat, message))
        if fault:
            raise SendUnsure("the board went away")


BOARDS: dict[str, Board] = {}


class BoardConnection(Connection):
    def __init__(self, context: AdapterContext, receive: Receive) -> None:
        super().__init__(context, receive)
        self.board, self.token = (
            BOARDS[context.require("BOARD_NAME")],
            context.require("BOARD_TOKEN"),
        )
        self.identities = (self.token,)

    async def open(self) -> None:
        await self.ping()
        self.run_until_closed(self._read())

    async def ping(self) -> None:
        if not self.board.is_up:
            raise NotConnected("the board cannot be reached")
        if self.token != self.board.token:
            raise CredentialsRefused("the Board refuses the token")

    async def _read(self) -> None:
        while True:
            while self.board.unread and await deliver_once(self.receive, self.board.unread[0]):
                del self.board.unread[0]
            await asyncio.sleep(0.01)


class BoardAdapter(ConnectedAdapter[BoardConnection]):
    def make_connection(self, receive: Receive) -> BoardConnection:
        return BoardConnection(self.context, receive)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        self.connection.board.post(target.chat_id, message, key)
        return key

    async def was_delivered(self, query, target, message):
        return query.key if query.key in self.connection.board.shown else None

    async def chats(self) -> Sequence[ChatInfo]:
        return [ChatInfo(name, name) for name in ("ann", "bob", "cy")]


MANIFEST = PlatformManifest(
    name="board",
    label="Board",
    adapter=BoardAdapter,
    capabilities=Capabilities(
        max_chars=500, dialect=MessageDialect(strong=("*", "*")), checks_delivery=True
    ),
    credentials=(CredentialField("BOARD_NAME", "Name"), CredentialField("BOARD_TOKEN", "Token")),
)


def event(number: int, chat: str, user: str, text: str) -> MessageEvent:
    source = SessionSource("board", chat, user_id=user, user_name=user)
    return MessageEvent(source, f"post-{number}", text, addressed=True, sent_at=2_000_000_000.0)


def register(ctx) -> None:
    ctx.register_platform(MANIFEST)

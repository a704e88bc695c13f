"""The connection that messages come by, which Slack calls Socket Mode. The library's client holds
it, and makes a new one where Slack asks for that or the line breaks."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.slack.failures import TROUBLE, of_socket
from hermes.gateway.platforms.slack.options import Options
from hermes.gateway.platforms.slack.workspace import client_of, library_log

logger = logging.getLogger(__name__)

PING = 5.0
"""Seconds between signs of life; one connection after the other is tried as often."""
SAYING_HELLO = 15.0
CHANGING = 3.0
"""Seconds that one connection may take to follow another."""

Heard = Callable[[SocketModeRequest], None]


class Socket:
    def __init__(self, heard: Heard, began: Callable[[], None]) -> None:
        """`began` is called at the beginning of each connection, `heard` for what comes by it."""
        self._heard, self._began = heard, began
        self._client: SocketModeClient | None = None
        self._hello = asyncio.Event()

    async def open(self, options: Options, session: aiohttp.ClientSession) -> None:
        """Returns when messages flow."""
        web = client_of("", options.base_url, session)
        try:
            answer = await web.apps_connections_open(app_token=options.app_token)
        except TROUBLE as error:
            raise of_socket(error) from error
        client = self._client = SocketModeClient(
            options.app_token, logger=library_log, web_client=web, ping_interval=PING
        )
        client.wss_uri = str(answer["url"])
        client.message_listeners.append(self._listen)
        client.socket_mode_request_listeners.append(self._take)
        try:
            async with asyncio.timeout(SAYING_HELLO):
                await client.connect()  # type: ignore[no-untyped-call]  # the library has no types here
                await self._hello.wait()
        except TimeoutError:
            raise NotConnected("Slack does not open a connection") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        tasks = (client.message_processor, client.current_session_monitor, client.message_receiver)
        await client.close()  # type: ignore[no-untyped-call]  # the library has no types here
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)

    async def is_up(self) -> bool:
        """Waits a little for a connection that is being made."""
        for _ in range(int(CHANGING / 0.1)):
            client = self._client
            if client is None or await client.is_connected():
                return client is not None
            if not client.connect_operation_lock.locked():
                return False
            await asyncio.sleep(0.1)
        return False

    async def acknowledge(self, envelope: str) -> None:
        """Slack need not send it again. It does when it does not hear this, and then we know."""
        wire = self._client.current_session if self._client else None
        if wire is None or wire.closed or not envelope:
            return
        try:
            await wire.send_json({"envelope_id": envelope})
        except TROUBLE as error:
            logger.info("Slack did not hear that we have a message: %s", type(error).__name__)

    async def _listen(
        self,
        client: AsyncBaseSocketModeClient,  # noqa: ARG002 - the library's signature
        message: dict[str, Any],
        raw: str | None,  # noqa: ARG002 - the signature is given
    ) -> None:
        if message.get("type") != "hello":
            return
        if int(message.get("num_connections") or 1) > 1:
            logger.warning("another program is connected as our app of Slack and gets messages")
        self._began()
        self._hello.set()

    async def _take(
        self,
        client: AsyncBaseSocketModeClient,  # noqa: ARG002 - the signature is given
        request: SocketModeRequest,
    ) -> None:
        self._heard(request)

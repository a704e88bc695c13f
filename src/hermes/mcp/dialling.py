"""Making a session with a server, by the transport it understands."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes.config.settings.abilities import McpServer
from hermes.core.ports import Clock
from hermes.mcp.authorising import Authoriser
from hermes.mcp.caller import Ticket
from hermes.mcp.elicitation import Elicitation
from hermes.mcp.failures import HttpRefused, McpError, Misdirected, Unavailable
from hermes.mcp.options import McpOptions
from hermes.mcp.peer import Asked
from hermes.mcp.sampling import Sampling
from hermes.mcp.session import Session
from hermes.mcp.transports import Transports

RETRIES = (0.5, 1.5)
"""Seconds before the second and third attempt, when trying again may help."""

log = logging.getLogger(__name__)


class Dialler:
    """`greeted` is called with each new session before anybody uses it, and `changed` when the
    server says that a list of its has changed."""

    def __init__(
        self,
        name: str,
        settings: McpServer,
        transports: Transports,
        options: McpOptions,
        *,
        clock: Clock,
        authoriser: Authoriser | None,
        greeted: Callable[[Session], Awaitable[None]],
        changed: Callable[[str], None],
    ) -> None:
        self.name, self.settings = name, settings
        self._transports, self._options = transports, options
        self._clock, self._authoriser = clock, authoriser
        self._greeted, self._changed = greeted, changed
        self._sampling = Sampling(name, settings.sampling)
        self._elicitation = Elicitation(name, options.question_seconds)
        self.kind = ""
        """The transport that worked, or nothing yet."""
        self._opening: Session | None = None
        self._refused: HttpRefused | None = None
        """What the first of two transports came to."""

    async def connect(self) -> Session:
        """Raises `McpError`."""
        for pause in RETRIES:
            try:
                return await self._in_time()
            except McpError as error:
                if not error.transient:
                    raise
                log.info("%s: %s; once more in %.1f s", self.name, error, pause)
            await self._clock.sleep(pause)
        return await self._in_time()

    async def _in_time(self) -> Session:
        seconds = self.settings.connect_timeout
        self._opening = self._refused = None
        try:
            async with asyncio.timeout(seconds or None):
                return await self._try_kinds()
        except TimeoutError:
            raise self._late(f"within {seconds:g} seconds") from None

    def _late(self, limit: str) -> Unavailable:
        """How far it got."""
        session = self._opening
        more = "`connect_timeout` of the server in mcp_servers allows more"
        if session is not None and session.welcome.protocol:
            asked = f"{self.name} answered `initialize`, but not `{session.asked}`, {limit}"
            return Unavailable(asked, hint=more)
        if self._refused is not None:
            return self._refused
        if session is not None and session.noise:
            return Unavailable(
                f"{self.name} did not start {limit}: it writes {session.noise!r} instead of MCP"
                " messages",
                hint="check that this is an MCP server, and that it logs to its standard error",
            )
        return Unavailable(f"{self.name} did not start {limit}", hint=more)

    async def _try_kinds(self) -> Session:
        kinds = self._transports.kinds(self.name, self.settings)
        *others, last = (self.kind,) if self.kind in kinds else kinds
        for kind in others:
            try:
                return await self._open(kind)
            except HttpRefused as error:
                if error.transient:
                    raise
                self._refused = error  # an older server does not know this way
        try:
            return await self._open(last)
        except McpError as error:
            is_its_kind = self._opening is not None and self._opening.asked
            if self._refused is None or is_its_kind or isinstance(error, Misdirected):
                raise
            raise self._refused from error

    async def _open(self, kind: str) -> Session:
        session = Session(
            self.name,
            self._transports.make(kind, self.name, self.settings, self._authoriser),
            asked=self._asked(),
            abilities={
                "roots": {},
                **self._sampling.abilities(),
                **self._elicitation.abilities(),
            },
            limits=self._options.limits,
            changed=self._changed,
        )
        self._opening, opened = session, False
        try:
            await session.open()
            await self._greeted(session)
            opened = True
        finally:
            if not opened:
                await session.close()
        self.kind, self._opening = kind, None
        return session

    def _asked(self) -> dict[str, Asked]:
        folder = self._options.folder
        roots = [{"uri": Path(folder).absolute().as_uri()}] if folder else []

        async def ping(_params: dict[str, Any], _ticket: Ticket | None) -> Any:
            return {}

        async def list_roots(_params: dict[str, Any], _ticket: Ticket | None) -> Any:
            return {"roots": roots}

        return {
            "ping": ping,
            "roots/list": list_roots,
            "sampling/createMessage": self._sampling.answer,
            "elicitation/create": self._elicitation.answer,
        }

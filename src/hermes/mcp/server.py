"""One server as a session sees it: what it offers, known from earlier or found out now."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError
from hermes.core.ports import Clock
from hermes.mcp.admission import admit
from hermes.mcp.authorising import Authoriser
from hermes.mcp.catalogue import Catalogue, CatalogueCache
from hermes.mcp.connection import Connection, State
from hermes.mcp.dialling import Dialler
from hermes.mcp.lines import one_line
from hermes.mcp.options import McpOptions
from hermes.mcp.session import MOST_ITEMS, Listed, Session
from hermes.mcp.transports import Transports
from hermes.util.text import many
from hermes.util.threads import in_thread

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Between a change the server reports and looking; longer while it keeps reporting."""
MOST_NAMED = 5
NOTICE_CHARS = 2_000

log = logging.getLogger(__name__)


class Server:
    """`tell` gets what the user should know, each thing once."""

    def __init__(
        self,
        name: str,
        settings: McpServer,
        transports: Transports,
        options: McpOptions,
        *,
        clock: Clock,
        tell: Callable[[str], None],
        authoriser: Authoriser | None = None,
    ) -> None:
        self.name, self.settings = name, settings
        self._clock = clock
        self._cache = CatalogueCache(options.cache)
        self._told: set[str] = set()
        self._tell_user, self._quiet = tell, False
        self._looking: asyncio.Task[None] | None = None
        self._changes = 0
        self.catalogue = self._cache.load(name, settings)
        """None while it is not known."""
        dialler = Dialler(
            name,
            settings,
            transports,
            options,
            clock=clock,
            authoriser=authoriser,
            greeted=self._learn,
            changed=self._changed,
        )
        self.connection = Connection(dialler, clock=clock, tell=self.tell, unmade=self._failed)

    def tell(self, text: str) -> None:
        line = one_line(text, NOTICE_CHARS)
        if line not in self._told:
            self._told.add(line)
            if not self._quiet:
                self._tell_user(line)

    async def find_out(self) -> Catalogue:
        """What it offers, asked now when it is not known. Raises `ToolError`."""
        if self.catalogue is None:
            await self.connection.use(_nothing_more)  # connecting looks
        return self.catalogue or Catalogue()

    async def refresh(self) -> Catalogue:
        """What it offers now, also when it is left alone after failures. Raises `ToolError`."""
        self.connection.forgive()
        connected = self.connection.state is State.READY
        await self.connection.use(self._learn if connected else _nothing_more)
        return self.catalogue or Catalogue()

    async def restart(self) -> Catalogue | None:
        """What it offers after a new start; None while calls are under way, after which it is
        started anew. Who asked hears of everything, so nobody else is told. Raises `ToolError`."""
        self._quiet = True
        try:
            return await self.refresh() if await self.connection.renew() else None
        finally:
            self._quiet = False

    def retire(self) -> None:
        """It is not wanted any more: it ends when the calls under way have."""
        if self._looking is not None:
            self._looking.cancel()
        self.connection.retire()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.connection.close()

    async def _learn(self, session: Session) -> None:
        welcome = session.welcome
        offered = Listed([], more=False)
        if welcome.has("tools") or not welcome.capabilities:
            seconds = self.settings.connect_timeout
            offered = await session.pages("tools/list", "tools", seconds=seconds)
        # Texts are looked at one by one, and there may be many.
        tools, problems = await in_thread(admit, offered.items)
        if problems:
            self.tell(_left_out(self.name, problems))
        if offered.more:
            words = f"only the first {MOST_ITEMS:,} tools are used; there are more"
            self.tell(f"The MCP server {self.name}: {words}")
            problems += (words,)
        found = Catalogue(tools, welcome.has("resources"), welcome.has("prompts"), problems)
        before, self.catalogue = self.catalogue, found
        if found == before:
            self._cache.seen(self.name)
            return
        self._cache.save(self.name, self.settings, found)
        if before is not None:
            self.tell(
                f"The MCP server {self.name} offers other tools than before; "
                "new conversations have them"
            )

    def _failed(self, reason: str) -> None:
        self._cache.failed(self.name, self.settings, one_line(reason, NOTICE_CHARS))

    def _changed(self, what: str) -> None:
        self._changes += what == "tools"
        if self._changes and self._looking is None:
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._changes:
                await self._clock.sleep(pause)
                self._changes, pause = 0, min(pause * 2, LONGEST_PAUSE)
                if self.connection.state is State.READY:  # else connecting looks
                    await self.refresh()
        except ToolError as error:
            log.info("the tools of %s could not be listed again: %s", self.name, error)
        finally:
            self._looking = None


async def _nothing_more(_session: Session) -> None:
    return None


def _left_out(name: str, problems: tuple[str, ...]) -> str:
    shown = "; ".join(problems[:MOST_NAMED])
    more = f"; and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
    return f"The MCP server {name}: {many(len(problems), 'tool')} left out ({shown}{more})"


class ServerStatus(msgspec.Struct, frozen=True):
    name: str
    state: str
    transport: str
    """`stdio`, `http`, `sse`, or empty when that is not known yet."""
    tools: int | None
    """How many it offers; None when that is not known yet."""
    problems: tuple[str, ...]
    error: str
    """The last failure, while it lasts."""

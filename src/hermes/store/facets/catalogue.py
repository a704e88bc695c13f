"""Finding sessions and what was said in them."""

from functools import partial

from hermes.core.ports import SessionInfo
from hermes.store.facets.access import Access
from hermes.store.queries import sessions, titles
from hermes.store.records import SearchHit, SearchRequest, SessionFilter
from hermes.store.search.finder import search
from hermes.store.sql import Database


class Catalogue(Access):
    """`port.Catalogue`."""

    async def info(self, session_id: str) -> SessionInfo:
        return await self.read(partial(sessions.info, session_id=session_id))

    async def latest(self, source: str = "") -> SessionInfo | None:
        return await self.read(partial(sessions.latest, source=source))

    async def sessions(self, which: SessionFilter) -> tuple[SessionInfo, ...]:
        return await self.read(partial(sessions.select, which=which))

    async def resolve(self, name: str, *, exactly: bool = False) -> SessionInfo:
        def work(database: Database) -> SessionInfo:
            return sessions.info(database, titles.resolve(database, name, exactly=exactly))

        return await self.read(work)

    async def set_title(self, session_id: str, title: str) -> str:
        return await self.write(partial(titles.set_title, session_id=session_id, title=title))

    async def next_title(self, title: str) -> str:
        return await self.read(partial(titles.next_title, title=title))

    async def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        find = partial(search, self._engine.backend)
        return await self.read(partial(find, request=request, now=self._now()))

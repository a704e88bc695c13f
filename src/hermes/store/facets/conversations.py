"""The log, what its conversations are, and how they go on."""

from collections.abc import Sequence
from functools import partial

from hermes.core.messages import Message
from hermes.core.ports import SessionInfo
from hermes.core.usage import ModelCall
from hermes.store.facets.access import Access
from hermes.store.fencing import fenced
from hermes.store.queries import calls, lineage, messages, projections, sessions
from hermes.store.records import Change, LoggedMessage, UsageLine
from hermes.store.rows import to_row
from hermes.store.sql import Database

SMALL_PROMPT = 32_000
"""Characters. A longer one takes more than a fraction of a millisecond; none is indexed."""


class Conversations(Access):
    """`port.Conversations`."""

    async def create(
        self,
        session_id: str,
        *,
        source: str,
        model: str,
        system_prompt: str,
        parent_id: str = "",
        user_id: str = "",
    ) -> None:
        new = sessions.NewSession(session_id, source, model, system_prompt, parent_id, user_id)
        work = partial(sessions.insert, new=new, now=self._now())
        await self.write(work, is_small=len(system_prompt) <= SMALL_PROMPT)

    async def append(self, session_id: str, message: Message, call: ModelCall | None = None) -> int:
        row, now = to_row(message), self._now()
        backend, count = self._engine.backend, messages.calls_in(message)

        def work(database: Database) -> int:
            id_ = messages.append(backend, database, session_id, row, calls=count, now=now)
            if call is not None:
                calls.record(database, session_id=session_id, call=call, now=now)
            return id_

        return await self.write(fenced(work), is_small=messages.is_small(row))

    async def messages(self, session_id: str) -> tuple[Message, ...]:
        return await self.read(partial(projections.conversation, session_id=session_id))

    async def entries(self, session_id: str) -> tuple[LoggedMessage | Message, ...]:
        return tuple(await self.read(partial(projections.entries, session_id=session_id)))

    async def log(self, session_id: str) -> tuple[LoggedMessage, ...]:
        return await self.read(partial(messages.log, session_id=session_id))

    async def record_call(self, session_id: str, call: ModelCall) -> None:
        record = partial(calls.record, session_id=session_id, call=call, now=self._now())
        await self.write(record, is_small=True)

    async def usage(
        self, session_id: str = "", *, since: float | None = None
    ) -> tuple[UsageLine, ...]:
        return await self.read(partial(calls.lines, session_id=session_id, since=since or 0.0))

    async def spent_usd(
        self, session_id: str = "", *, since: float | None = None, user_id: str = ""
    ) -> float:
        find = partial(calls.spent, session_id=session_id, since=since or 0.0, user_id=user_id)
        return await self.read(find)

    async def finish(self, session_id: str, exit_reason: str) -> None:
        work = partial(sessions.end, session_id=session_id, reason=exit_reason, now=self._now())
        await self.write(fenced(work), is_small=True)

    async def reopen(self, session_id: str) -> None:
        await self.write(partial(sessions.change, session_id=session_id, statement=sessions.REOPEN))

    async def branch(self, session_id: str, new_id: str, *, up_to: int | None = None) -> None:
        work = partial(lineage.branch, session_id=session_id, new_id=new_id, up_to=up_to)
        await self.write(fenced(partial(work, now=self._now())))

    async def compact(
        self, session_id: str, new_id: str, conversation: Sequence[LoggedMessage | Message]
    ) -> None:
        work = partial(lineage.compact, conversation=conversation, now=self._now())
        await self.write(fenced(partial(work, session_id=session_id, new_id=new_id)))

    async def undo(self, session_id: str, turns: int = 1) -> str:
        work = partial(lineage.undo, session_id=session_id, turns=turns, now=self._now())
        return await self.write(fenced(work))

    async def undone(self, session_id: str) -> tuple[Message, ...]:
        return await self.read(partial(projections.undone, session_id=session_id))

    async def changes(self, session_id: str, after: int) -> tuple[Change, ...]:
        return await self.read(partial(projections.changes, session_id=session_id, after=after))

    async def ancestors(self, session_id: str) -> tuple[SessionInfo, ...]:
        return await self.read(partial(lineage.ancestors, session_id=session_id))

    async def descendants(self, session_id: str) -> tuple[SessionInfo, ...]:
        return await self.read(partial(lineage.descendants, session_id=session_id))

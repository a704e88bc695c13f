"""The one interface of the session store; SQLite and PostgreSQL are behind it.

A returned call means the data is safe. Every method that names a session raises `SessionNotFound`
for one that is not there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from hermes.core.messages import Message
from hermes.core.ports import Ledger, SessionInfo, SessionLog
from hermes.store.records import (
    Activity,
    Change,
    Claims,
    LoggedMessage,
    Mail,
    Record,
    Responses,
    SearchHit,
    SearchRequest,
    SessionFilter,
    StoreStats,
    UsageLine,
)

Progress = Callable[[int, int], None]


def unheard(_done: int, _total: int) -> None:
    """A `Progress` for nobody."""


class Conversations(SessionLog, Ledger, Protocol):
    """The log, what its conversations are, and how they go on."""

    async def entries(self, session_id: str) -> tuple[LoggedMessage | Message, ...]:
        """The conversation as `messages`, with the log's numbers where a message has one."""
        ...

    async def log(self, session_id: str) -> tuple[LoggedMessage, ...]:
        """Every message ever logged in the session, undone and compacted ones too."""
        ...

    async def usage(
        self, session_id: str = "", *, since: float | None = None
    ) -> tuple[UsageLine, ...]:
        """Model calls by task, model and tool: of a session with its subagents and what went on
        after a compaction, or of all sessions."""
        ...

    async def reopen(self, session_id: str) -> None: ...

    async def branch(self, session_id: str, new_id: str, *, up_to: int | None = None) -> None:
        """A new session that starts with the conversation so far, or with it up to message
        `up_to`; both go on apart."""
        ...

    async def compact(
        self, session_id: str, new_id: str, conversation: Sequence[LoggedMessage | Message]
    ) -> None:
        """End the session (`compression`) and go on in a child that starts with `conversation`:
        logged messages that are kept, and new ones such as a summary. The title goes along."""
        ...

    async def undo(self, session_id: str, turns: int = 1) -> str:
        """Take the last turns out of the conversation, not out of the log; the text of the first
        user message taken out, or empty when there was none."""
        ...

    async def undone(self, session_id: str) -> tuple[Message, ...]:
        """What the newest undo took out of the conversation; nothing once it went on, or changed in
        another way."""
        ...

    async def changes(self, session_id: str, after: int) -> tuple[Change, ...]:
        """What became of the conversation since change number `after`, oldest first; see
        `mail.InboxRow.log_after`."""
        ...

    async def ancestors(self, session_id: str) -> tuple[SessionInfo, ...]:
        """Parent, grandparent, …"""
        ...

    async def descendants(self, session_id: str) -> tuple[SessionInfo, ...]:
        """Children and theirs, oldest first."""
        ...


class Catalogue(Protocol):
    """Finding sessions and what was said in them."""

    async def sessions(self, which: SessionFilter) -> tuple[SessionInfo, ...]:
        """Newest-started first."""
        ...

    async def resolve(self, name: str, *, exactly: bool = False) -> SessionInfo:
        """The session meant by an id, the unambiguous start of one, or a title: then the newest
        of that title's line, or `exactly` the one that is called so."""
        ...

    async def set_title(self, session_id: str, title: str) -> str:
        """The title as stored, cleaned. Empty removes it. Raises `UsageError` for one that is too
        long or taken."""
        ...

    async def next_title(self, title: str) -> str:
        """The next free title of a line: `plan` → `plan #2` → `plan #3`."""
        ...

    async def search(self, request: SearchRequest) -> tuple[SearchHit, ...]:
        """Best first. Raises `UsageError` for a query with nothing to look for."""
        ...


class Upkeep(Protocol):
    """Taking sessions out and in, and looking after the store itself."""

    async def export(self, session_id: str) -> Record: ...

    async def restore(self, record: Record) -> str:
        """Store an exported session again; its id. Raises `UsageError` for data that is not one
        and `StoreError` for an id that is there already."""
        ...

    async def delete(self, session_id: str) -> None:
        """Messages too. Children stay whole."""
        ...

    async def prune(self, which: SessionFilter) -> tuple[str, ...]:
        """Delete the sessions of the filter that have ended and are not archived; their ids."""
        ...

    async def set_archived(self, session_id: str, archived: bool) -> None: ...

    async def stats(self) -> StoreStats: ...

    async def activity(self, *, since: float, sources: Sequence[str] = ()) -> Activity:
        """What was said, called and spent since then, of all sources or of some."""
        ...

    async def reindex(self, progress: Progress = unheard) -> int:
        """Build the search index anew; the number of messages in it."""
        ...

    async def vacuum(self) -> None:
        """Give unused room back to the disk."""
        ...

    async def backup(self, target: Path, progress: Progress = unheard) -> None:
        """A copy of the whole store in a new file, taken while others write."""
        ...


class SessionStore(Conversations, Catalogue, Upkeep, Mail, Claims, Responses, Protocol):
    def close(self) -> None:
        """Finish pending writes and let go of the store. May be called again."""
        ...

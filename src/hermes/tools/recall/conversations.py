"""Past conversations, put together from the sessions they are stored as.

After a compaction a conversation goes on in a new session, and a subagent has a session of its own:
both count as part of the conversation they come from. A branch is a conversation by itself.
"""

from enum import Enum, auto
from typing import Protocol

import msgspec

from hermes.core.errors import SessionNotFound
from hermes.core.ports import SessionInfo
from hermes.store.port import Catalogue, Conversations
from hermes.store.records import SearchHit, SearchRequest, SessionFilter

MOST_HITS = 20
"""Matches of one conversation that are looked at."""

_PAGE = 50
_PAGES = 6


class PastSessions(Conversations, Catalogue, Protocol):
    """What looking back needs of the store."""


class Viewer(msgspec.Struct, frozen=True):
    """Who looks, and from where."""

    session_id: str
    """The session that looks; its own conversation is not shown."""
    user: str = ""
    """Only conversations of this user; empty is the owner, who may see all."""
    hidden_sources: tuple[str, ...] = ()


class Conversation(msgspec.Struct, frozen=True):
    head: SessionInfo
    """The session it began in."""
    newest: SessionInfo
    """The session it would go on in."""
    members: tuple[SessionInfo, ...]
    """All of its sessions, oldest first."""
    hits: tuple[SearchHit, ...] = ()
    """Best first."""

    @property
    def title(self) -> str:
        return self.newest.title or self.head.title or self.head.preview or "(untitled)"


class Kinship(Enum):
    CONTINUATION = auto()
    BRANCH = auto()
    SUBAGENT = auto()


def kinship(child: SessionInfo, parent: SessionInfo) -> Kinship:
    """What a session is to the one it comes from.

    A compaction ends the parent in the instant it begins the child. A branch begins with the
    parent's system prompt; a subagent has its own.
    """
    if parent.end_reason == "compression" and parent.ended_at == child.started_at:
        return Kinship.CONTINUATION
    same = (child.source, child.system_prompt) == (parent.source, parent.system_prompt)
    return Kinship.BRANCH if same else Kinship.SUBAGENT


class Past:
    """The conversations a viewer may look into. Made for one look: what it learns of sessions is
    not read again."""

    def __init__(self, sessions: PastSessions, viewer: Viewer) -> None:
        self._sessions, self._viewer = sessions, viewer
        self._heads: dict[str, SessionInfo | None] = {}

    async def search(self, query: str, roles: tuple[str, ...], limit: int) -> list[Conversation]:
        """The `limit` best. Raises `UsageError` for a query with nothing to look for."""
        found: dict[str, list[SearchHit]] = {}
        for page in range(_PAGES):  # one's own conversation may be full of matches
            hits = await self._sessions.search(
                SearchRequest(
                    query,
                    exclude_sources=self._viewer.hidden_sources,
                    roles=roles,
                    limit=_PAGE,
                    offset=page * _PAGE,
                )
            )
            for hit in hits:
                head = await self._visible_head(hit.session_id)
                if head is not None and (head.id in found or len(found) < limit):
                    found.setdefault(head.id, []).append(hit)
            if len(found) >= limit or len(hits) < _PAGE:
                break
        pairs = [(await self._whole(id_), hits[:MOST_HITS]) for id_, hits in found.items()]
        return [msgspec.structs.replace(one, hits=tuple(hits)) for one, hits in pairs if one]

    async def recent(self, limit: int) -> list[Conversation]:
        """Those that began, or went on after a compaction, last."""
        found: dict[str, Conversation | None] = {}
        for page in range(_PAGES):
            listed = await self._sessions.sessions(
                SessionFilter(
                    exclude_sources=self._viewer.hidden_sources, limit=_PAGE, offset=page * _PAGE
                )
            )
            for info in listed:
                head = await self._visible_head(info.id)
                if head is not None and head.id not in found and len(found) < limit:
                    found[head.id] = await self._whole(head.id)
            if len(found) >= limit or len(listed) < _PAGE:
                break
        return [one for one in found.values() if one]

    async def _visible_head(self, session_id: str) -> SessionInfo | None:
        head, own = await self._head(session_id), await self._head(self._viewer.session_id)
        if head is None or (own is not None and head.id == own.id):
            return None
        return head if self._viewer.user in ("", head.user_id) else None

    async def _head(self, session_id: str) -> SessionInfo | None:
        """None for a session that is gone."""
        if session_id not in self._heads:
            try:
                head = await self._sessions.info(session_id)
                for parent in await self._sessions.ancestors(session_id):
                    if kinship(head, parent) is Kinship.BRANCH:
                        break
                    head = parent
            except SessionNotFound:
                self._heads[session_id] = None
            else:
                self._heads[session_id] = head
        return self._heads[session_id]

    async def _whole(self, head_id: str) -> Conversation | None:
        try:
            head = await self._sessions.info(head_id)
            below = await self._sessions.descendants(head_id)
        except SessionNotFound:
            return None
        members = {head.id: head}
        newest = head
        for child in below:  # a parent comes before its children
            parent = members.get(child.parent_id)
            if parent is None or (kin := kinship(child, parent)) is Kinship.BRANCH:
                continue
            members[child.id] = child
            if kin is Kinship.CONTINUATION and parent.id == newest.id:
                newest = child
        return Conversation(head, newest, tuple(members.values()))

"""What goes into the store and comes out of it, beside messages."""

from typing import Any

import msgspec

from hermes.core.messages import Message
from hermes.core.usage import Usage

Record = dict[str, Any]
"""A whole session as JSON-ready data: the columns of its row, `messages`, `model_calls` and
`projection`. The form of JSON Lines exports."""


class LoggedMessage(msgspec.Struct, frozen=True):
    """A message with what the log knows of it."""

    id: int
    timestamp: float
    message: Message
    token_count: int | None = None


class Change(msgspec.Struct, frozen=True):
    """Something that made another conversation of one: an undo, a branch, a compaction."""

    reason: str
    """`undo`, `branch` or `compression`."""
    session_id: str
    """What it made: the session itself for an undo, else the new one."""


class SessionFilter(msgspec.Struct, frozen=True):
    """Which sessions. The default is all that are not archived."""

    sources: tuple[str, ...] = ()
    """Empty: any."""
    exclude_sources: tuple[str, ...] = ()
    archived: bool | None = False
    """None: both kinds."""
    started_before: float | None = None
    ended_only: bool = False
    limit: int = 20
    offset: int = 0


class SearchRequest(msgspec.Struct, frozen=True):
    query: str
    """In the query language of `store.search.language`."""
    sources: tuple[str, ...] = ()
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    limit: int = 20
    offset: int = 0


Candidate = tuple[int, str, str, float, float]
"""A message that matches, with what ranking needs: id, session, role, timestamp and relevance, of
which more is better. A plain row, since hundreds are ranked for each page that is shown."""


class Neighbour(msgspec.Struct, frozen=True):
    """The message before or after a hit, cut to 200 characters."""

    role: str
    content: str


class SearchHit(msgspec.Struct, frozen=True):
    id: int
    session_id: str
    role: str
    timestamp: float
    snippet: str
    """A piece of the text with `>>>` and `<<<` around what matched."""
    context: tuple[Neighbour, ...]
    source: str
    model: str
    session_started: float
    title: str = ""


class UsageLine(msgspec.Struct, frozen=True):
    """What the calls of one kind used together."""

    task: str
    """`main` or the auxiliary task."""
    model: str
    provider: str
    tool: str
    """The tool that made the calls, or empty."""
    is_subagent: bool
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int
    """Calls whose price is not known; their cost is not in `cost_usd`."""


class Sizes(msgspec.Struct, frozen=True):
    """What a store takes up, in bytes."""

    total: int
    unused: int = 0
    search: int = 0


class StoreStats(msgspec.Struct, frozen=True):
    where: str
    sessions: int
    archived: int
    messages: int
    tool_calls: int
    usage: Usage
    cost_usd: float
    by_source: dict[str, int]
    """Sessions of each source, the most frequent first."""
    by_role: dict[str, int]
    oldest: float | None
    newest: float | None
    sizes: Sizes


class ActiveSession(msgspec.Struct, frozen=True):
    """A session in which something was said."""

    source: str
    model: str
    first: float
    """When the first message of the time in question came ..."""
    last: float
    """... and when the last one."""
    messages: int
    end_reason: str = ""


class ToolSum(msgspec.Struct, frozen=True):
    name: str
    calls: int
    failed: int


class CallSum(msgspec.Struct, frozen=True):
    """Model calls of one source, model and task together."""

    source: str
    """Empty when the session was deleted."""
    model: str
    provider: str
    task: str
    calls: int
    usage: Usage
    cost_usd: float
    unpriced_calls: int


class Moment(msgspec.Struct, frozen=True):
    """A quarter of an hour in which something happened."""

    start: int
    """Seconds since the epoch."""
    messages: int
    tokens: int = 0
    cost_usd: float = 0.0


class Activity(msgspec.Struct, frozen=True):
    """What went on since a moment; oldest first, or most frequent first."""

    sessions: tuple[ActiveSession, ...] = ()
    tools: tuple[ToolSum, ...] = ()
    calls: tuple[CallSum, ...] = ()
    moments: tuple[Moment, ...] = ()

"""Checkpoints as a conversation needs them: one before the first change of each turn."""

import asyncio
from collections.abc import Callable

from hermes.core.events import Notice
from hermes.core.tool import ToolContext
from hermes.tools.checkpoints.records import Record
from hermes.tools.checkpoints.store import Checkpoints

UNSAID = "changes by the agent"
LONGEST_REASON = 80


class TurnCheckpoints:
    """`before_change` goes to every tool that may change files; `turn_ended` to the agent.

    What changes between the two is the agent's, whatever changed it: a file tool, a command, a
    script, a subagent. What changes outside of turns is the user's. One object serves one
    conversation, so what belongs to a turn is known without its session, whose id may change.
    `find` is asked at the first change: most conversations make none.
    """

    def __init__(self, find: Callable[[], Checkpoints]) -> None:
        self._find = find
        self._checkpoints: Checkpoints | None = None
        self._session_id, self._reason = "", UNSAID
        self._taken = False
        self._record: Record | None = None
        self._told = False
        self._one_at_a_time = asyncio.Lock()

    def turn_started(self, session_id: str, reason: str) -> None:
        """`reason` is what the user asked; the list of checkpoints shows its beginning."""
        first = next(iter(reason.strip().splitlines()), "")
        cut = first if len(first) <= LONGEST_REASON else f"{first[:LONGEST_REASON]}…"
        self._session_id, self._reason = session_id, cut or UNSAID

    async def before_change(self, call: ToolContext) -> None:
        """Returns when the state before the change is safe, or cannot be made so."""
        async with self._one_at_a_time:
            if self._taken:
                return
            self._checkpoints = checkpoints = self._checkpoints or self._find()
            session_id = self._session_id or call.session_id
            self._record = await checkpoints.take(self._reason, session_id)
            self._taken = True
        for text in checkpoints.notices():
            call.announce(Notice(text))
        if checkpoints.problem and not self._told:
            self._told = True
            call.announce(Notice(checkpoints.problem))

    async def turn_ended(self) -> list[str]:
        """Call it at the end of each turn, however it ended; what the user should know."""
        record, self._record, self._taken = self._record, None, False
        self._session_id, self._reason = "", UNSAID
        if self._checkpoints is None:
            return []
        if record is not None:
            await self._checkpoints.finish(record)
        return self._checkpoints.notices()

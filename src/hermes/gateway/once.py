"""Commands that must not take effect twice. Such a command is marked as begun before it does
anything; whoever takes up a marked one after a crash asks the store what became of it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from hermes.app.commands import session
from hermes.app.commands.registry import CommandDef
from hermes.app.commands.running import Commands, Found
from hermes.app.commands.talk import Call
from hermes.app.extensions import SlashCommand
from hermes.config.settings.abilities import QuickCommand
from hermes.core.errors import SessionNotFound
from hermes.core.messages import User
from hermes.store.records import InboxRow

if TYPE_CHECKING:
    from hermes.app.commands.talk import Handler
    from hermes.gateway.talking import ChatTalk

UNKNOWN = "I was cut off while I did this. It may have taken effect; I do not do it again."

Became = Callable[[Call, InboxRow], Awaitable[str | None]]
"""What a command did before it was cut off, as its answer; None when it did nothing."""


class OnceCommands(Commands):
    """`Commands` of one message of a chat."""

    def __init__(self, talk: "ChatTalk", own: "Mapping[str, Handler]") -> None:
        super().__init__(talk, own)
        self._chat = talk

    async def do(self, found: Found, arguments: str) -> str:
        became = _became(found)
        if became is None:
            return await super().do(found, arguments)
        row = self._chat.row
        if row.state != "new":
            call = Call(found, arguments, self._chat) if isinstance(found, CommandDef) else None
            told = await became(call, row) if call else UNKNOWN
            if told is not None:
                return told
        agent = self._chat.ready
        await self._chat.house.store.inbox.start_command(row.id, agent.session_id if agent else "")
        return await super().do(found, arguments)


def _became(found: Found) -> Became | None:
    """None for what may be done again: it shows something, or ends where it ended before."""
    if isinstance(found, CommandDef):
        return KNOWN.get(found.name)
    return _nobody_knows if isinstance(found, SlashCommand | QuickCommand) else None


async def _nobody_knows(_call: Call, _row: InboxRow) -> str | None:
    return UNKNOWN


async def _made(call: Call, row: InboxRow, reason: str) -> str:
    """The session that came of the conversation by a change; "" when there was none."""
    changes = await call.app.store.changes(row.session_id, row.log_after)
    return next((each.session_id for each in changes if each.reason == reason), "")


async def _undo(call: Call, row: InboxRow) -> str | None:
    if not await _made(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    return session.taken_back(call, asked[0].text if asked else "")


async def _retry(call: Call, row: InboxRow) -> str | None:
    """The question was taken back; what is left is to ask it. One that is `working` was marked anew
    when its turn began, which is after that."""
    if row.state != "working" and not await _made(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    if not asked:
        return UNKNOWN
    await call.talk.ask(User(asked[-1].said))
    return ""


async def _branch(call: Call, row: InboxRow) -> str | None:
    made = await _made(call, row, "branch")
    return await session.into_branch(call, row.session_id, made) if made else None


async def _compress(call: Call, row: InboxRow) -> str | None:
    made = await _made(call, row, "compression")
    return f"Compacted: now session `{made}`" if made else None


async def _new(call: Call, row: InboxRow) -> str | None:
    if call.agent.session_id == row.session_id:
        return None
    return f"A new conversation: session `{call.agent.session_id}`"


async def _resume(call: Call, row: InboxRow) -> str | None:
    if not call.arguments:
        return None
    try:
        wanted = await call.app.store.resolve(call.arguments)
    except SessionNotFound:
        return None
    if wanted.id != call.agent.session_id or wanted.id == row.session_id:
        return None
    return f"Back in {wanted.title or wanted.id}."


KNOWN: Mapping[str, Became] = {
    "undo": _undo,
    "retry": _retry,
    "branch": _branch,
    "compress": _compress,
    "new": _new,
    "resume": _resume,
    "rollback": _nobody_knows,
    "restart": _nobody_knows,
    "update": _nobody_knows,
    "pair": _nobody_knows,
}

"""Slash commands in chats, and effects that must not happen twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from hermes.agent import Agent
from hermes.app import (
    App,
    CommandCall,
    CommandDef,
    CommandHandler,
    Commands,
    FoundCommand,
    SlashCommand,
    Surface,
    command_handlers,
    commands_in,
    exact_command,
)
from hermes.config.settings import QuickCommand
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, SessionNotFound, StoreError, UsageError
from hermes.core.messages import User
from hermes.gateway.auth import may
from hermes.gateway.hooks import about
from hermes.gateway.messages import INTERNAL_PREFIX, inbox_item
from hermes.gateway.pairing import PairingStore
from hermes.gateway.platforms.registry import home_variable
from hermes.gateway.questions import decide
from hermes.gateway.session_keys import background_key, background_name
from hermes.ops import OPS_HANDLERS
from hermes.sdk.platforms import MessageEvent, SessionSource
from hermes.store import InboxRow, SessionFilter
from hermes.util.text import many, plain_line

if TYPE_CHECKING:
    from hermes.gateway.worker import ChatWorker


INTERRUPTED_MESSAGE = (
    "The gateway was interrupted while this command ran. It may have taken effect, so it is not"
    " repeated. Check the result, and send the command again if needed."
)

OutcomeCheck = Callable[[CommandCall, InboxRow], Awaitable[str | None]]
"""Returns the effect of an interrupted command as its reply; None if it had no effect yet."""


class IdempotentCommands(Commands):
    """Runs the command of one chat message, with effects at most once.

    A command with side effects is marked as started before it does anything. When a marked one is
    found after a crash, the store is asked what it has already done.
    """

    def __init__(self, chat: "ChatCommandContext") -> None:
        super().__init__(chat, {**OPS_HANDLERS, **CHAT_HANDLERS})
        self._chat = chat

    async def do(self, found: FoundCommand, arguments: str) -> str:
        chat, row, check = self._chat, self._chat.row, None
        has_effects = isinstance(found, SlashCommand | QuickCommand)
        if isinstance(found, CommandDef):
            has_effects, check = found.name in OUTCOME_CHECKS, OUTCOME_CHECKS.get(found.name)
        if not has_effects:
            return await super().do(found, arguments)
        if row.state != "new":
            outcome: str | None = INTERRUPTED_MESSAGE
            if check is not None and isinstance(found, CommandDef):
                outcome = await check(CommandCall(found, arguments, chat), row)
            if outcome is not None:
                return outcome
        session_id = chat.open_agent.session_id if chat.open_agent else ""
        await chat.gateway.store.inbox.start_command(row.id, session_id)
        return await super().do(found, arguments)


async def _resulting_session(call: CommandCall, row: InboxRow, reason: str) -> str:
    """Return the session that a change produced after the command started; "" if there was none."""
    changes = await call.app.store.changes(row.session_id, row.log_after)
    return next((each.session_id for each in changes if each.reason == reason), "")


async def _undo(call: CommandCall, row: InboxRow) -> str | None:
    if not await _resulting_session(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    return command_handlers.undo_message(call, asked[0].text if asked else "")


async def _retry(call: CommandCall, row: InboxRow) -> str | None:
    """The question was already taken back, so it only has to be asked again. A row in state
    `working` was marked again when its turn started, which is after that."""
    if row.state != "working" and not await _resulting_session(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    if not asked:
        return INTERRUPTED_MESSAGE
    await call.talk.ask(User(asked[-1].said))
    return ""


async def _branch(call: CommandCall, row: InboxRow) -> str | None:
    if session_id := await _resulting_session(call, row, "branch"):
        return await command_handlers.into_branch(call, row.session_id, session_id)
    return None


async def _compress(call: CommandCall, row: InboxRow) -> str | None:
    session_id = await _resulting_session(call, row, "compression")
    return f"Compacted: now session `{session_id}`" if session_id else None


async def _new(call: CommandCall, row: InboxRow) -> str | None:
    if call.agent.session_id == row.session_id:
        return None
    return f"A new conversation: session `{call.agent.session_id}`"


async def _resume(call: CommandCall, row: InboxRow) -> str | None:
    if not call.arguments:
        return None
    try:
        wanted = await call.app.store.resolve(call.arguments)
    except SessionNotFound:
        return None
    if wanted.id != call.agent.session_id or wanted.id == row.session_id:
        return None
    return f"Back in {wanted.title or wanted.id}."


OUTCOME_CHECKS: Mapping[str, OutcomeCheck | None] = {
    "undo": _undo,
    "retry": _retry,
    "branch": _branch,
    "compress": _compress,
    "new": _new,
    "resume": _resume,
    "rollback": None,
    "restart": None,
    "update": None,
    "pair": None,
}
"""Built-in commands with effects; None if the effect of an interrupted one cannot be found out."""


PAGE_SIZE = 12  #: Commands on one page of /commands.
MAX_SESSIONS = 10
WITHOUT_AGENT = frozenset({
    "stop", "status", "approve", "deny", "queue", "agents", "background", "help", "commands",
    "platforms", "profile", "restart", "update", "verbose",
})  # fmt: skip
"""Commands that need no agent: they use the one that is open, if any."""


class ChatCommandContext:
    """Implements `app.commands.talk.Talk` for one message of a chat."""

    place = Surface.CHATS

    def __init__(
        self,
        worker: "ChatWorker",
        agent: Agent | None,
        row: InboxRow,
        event: MessageEvent,
        role: Role,
    ) -> None:
        """`role` is that of the person who gave the command, who need not be the one whose turn
        runs. Without an agent only the commands in `WITHOUT_AGENT` can run."""
        self.gateway, self.worker, self.row, self.event = worker.gateway, worker, row, event
        self.app: App = worker.gateway.app
        self.role = role
        self._agent = agent
        self._output: list[str] = []
        self._deferred: list[str] = []
        self.question: User | None = None
        """The message that the command asks the agent to answer, as /retry does."""

    @property
    def agent(self) -> Agent:
        found = self.open_agent
        if found is None:
            raise UsageError("this chat has no session yet", hint="send a message first")
        return found

    @property
    def open_agent(self) -> Agent | None:
        """The agent of the chat, if it is open."""
        return self.worker.session.agent or self._agent

    @property
    def busy(self) -> bool:
        return self.worker.busy

    async def run(self, text: str) -> bool:
        """Run a command. Returns False if the text is a message and not a command."""
        line = _strip_bot_name(text)
        if refused := may(self.role, line, self.app.loaded.settings.gateway):
            self.show(refused)
            return True
        name = line.split(None, 1)[0].removeprefix("/").lower()
        command = exact_command(name, Surface.CHATS)
        other_role = self.worker.session.role not in (None, self.role)
        # It acts with the rights of the open agent, outside a turn.
        if command is not None and command.name == "btw" and other_role:
            self.show(f"The agent works for another person; use `/{name}` after that turn.")
            return True
        await self.fire_hook(f"command:{name}", command=name, args=line.partition(" ")[2])
        return await IdempotentCommands(self).run(line)

    async def fire_hook(self, event: str, **facts: object) -> None:
        await self.gateway.hooks.fire(event, **about(self.event.source, self.worker.key), **facts)

    async def continue_with(self, agent: Agent) -> None:
        try:
            await self.worker.session.adopt(agent)
        except StoreError:  # another chat uses this session, so its agent is not needed here
            await self.app.leave(agent)
            raise

    async def ask(self, message: User) -> None:
        self.question = message

    def later(self, text: str) -> None:
        self._deferred.append(text)

    def show(self, markdown: str) -> None:
        self._output.append(markdown)

    def output(self) -> str:
        return "\n\n".join(self._output)

    async def store_deferred(self) -> None:
        """Store the texts that the command deferred to after this turn, each as a message."""
        for number, text in enumerate(self._deferred):
            name = f"later:{self.event.message_id}:{number}"
            await self._store_message(name, text, self.worker.key, media=())
        if self._deferred:
            self.worker.wake()
        self._deferred.clear()

    async def steer(self, text: str) -> bool:
        """Store a text as a message and pass it into the running turn. Returns False if it has to
        wait for the next turn."""
        row_id = await self._store_message(f"steer:{self.row.id}", text, self.worker.key)
        waits = row_id is None or row_id in self.worker.current_rows or bool(self.event.media)
        steered = not waits and self.worker.steer(row_id or 0, text)
        self.worker.wake()
        return steered

    async def _store_message(self, name: str, text: str, key: str, **changes: object) -> int | None:
        """Store a text as a message of the same person in the chat `key`."""
        event = msgspec.structs.replace(
            self.event, message_id=f"{INTERNAL_PREFIX}{name}", text=text, **changes
        )
        return await self.gateway.store.inbox.receive(inbox_item(event, key), self.gateway.now())

    async def start_background_task(self, goal: str) -> str:
        """Store a background task as a message and start it. Returns its name; repeating the call
        yields the same task."""
        key = background_key(self.worker.key, self.row.id, self.row.received_at)
        await self._store_message(f"background:{self.row.id}", goal, key)
        self.gateway.wake_chat(key)
        return background_name(key)


def parse_command(text: str) -> CommandDef | None:
    """Return the command that a message starts with, by its full name."""
    word = text.split(None, 1)[0].partition("@")[0] if text.startswith("/") else ""
    return exact_command(word, Surface.CHATS) if word else None


async def open_command_context(
    worker: "ChatWorker", row: InboxRow, event: MessageEvent, role: Role
) -> ChatCommandContext:
    """Return the context for a command, with an agent if the command needs one."""
    word = _strip_bot_name(event.text).split(None, 1)[0]
    command = exact_command(word, Surface.CHATS, worker.gateway.settings)
    agent = worker.session.agent
    needs_no_agent = command is not None and command.name in WITHOUT_AGENT
    if not needs_no_agent and not (worker.busy and agent is not None):
        is_side = row.id in worker.side_rows
        agent = await worker.session.open(
            event.source, role, keep=lambda: is_side and worker.working
        )
    return ChatCommandContext(worker, agent, row, event, role)


def _strip_bot_name(text: str) -> str:
    """Return `/new plan` for `/new@our_bot plan`."""
    word, space, rest = text.partition(" ")
    return f"{word.partition('@')[0]}{space}{rest}"


async def status(call: CommandCall, chat: ChatCommandContext) -> str:
    """Show the status. Answered at once, also while the agent is being opened."""
    if chat.open_agent is not None:
        return await command_handlers.status(call, chat.worker.questions.state)
    row = await chat.gateway.store.chats.get(chat.worker.key)
    facts = {"Session": f"`{row.session_id}`" if row and row.session_id else "none yet"}
    if row and row.session_id:
        info = await call.app.store.info(row.session_id)
        facts["Session"] += f" “{info.title}”" if info.title else ""
        facts["Conversation"] = many(info.message_count, "message")
    facts["State"] = "working" if chat.worker.working else "waiting for you"
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


async def new(call: CommandCall, chat: ChatCommandContext) -> str:
    old = call.agent.session_id
    outcome = await command_handlers.new(call)
    await chat.fire_hook("session:end", session_id=old)
    for event in ("session:reset", "session:start"):
        await chat.fire_hook(event, session_id=call.agent.session_id)
    return outcome


async def stop(call: CommandCall, chat: ChatCommandContext) -> str:
    """Stop what runs outside the turn; the turn itself was stopped before."""
    background_tasks = chat.gateway.background_tasks(chat.worker.key)
    for task in background_tasks:
        task.stop_task()
    if chat.open_agent is None:
        return command_handlers.stopped_message(len(background_tasks))
    return await command_handlers.stop(call, already_stopped=len(background_tasks))


async def background(call: CommandCall, chat: ChatCommandContext) -> str:
    if not call.arguments:
        raise UsageError("the task is missing", hint="/background TASK")
    name = await chat.start_background_task(call.arguments)
    return f"Started `{name}`; the result is posted here. `/agents` lists running tasks."


async def agents(call: CommandCall, chat: ChatCommandContext) -> str:
    lines = [task.describe_task() for task in chat.gateway.background_tasks(chat.worker.key)]
    return command_handlers.format_background(
        lines + (command_handlers.list_background(call) if chat.open_agent else [])
    )


async def approve(call: CommandCall, chat: ChatCommandContext) -> str:
    return _decide(chat, call.words)


async def steer(call: CommandCall, chat: ChatCommandContext) -> str:
    if not call.arguments:
        raise UsageError("the message is missing", hint="/steer MESSAGE")
    if chat.busy and not chat.worker.may_steer(chat.event.source, chat.role):
        raise UsageError(
            "the running turn belongs to another person", hint="/queue MESSAGE waits for its end"
        )
    if await chat.steer(call.arguments):
        return "The agent reads it after its next step."
    return "Queued for after this turn." if chat.busy else ""


async def deny(call: CommandCall, chat: ChatCommandContext) -> str:
    return _decide(chat, call.words, "deny")


def _decide(chat: ChatCommandContext, words: Sequence[str], answer: str = "") -> str:
    """Answer an open approval: of this session or, for an owner, one that was asked in this chat.
    The first word may be its code, which is needed if several are open."""
    source, given = chat.event.source, [word.lower() for word in words]
    found = {each.token: each for each in chat.worker.questions.open_approvals}
    if chat.role == "owner":
        found |= {each.token: each for each in chat.gateway.approvals_in(source)}
    if given and given[0] in found:
        found, given = {given[0]: found[given[0]]}, given[1:]
    if not found:
        raise UsageError("no approval is pending")
    if len(found) > 1:
        codes = ", ".join(found)
        raise UsageError("several approvals are pending", hint=f"name one by its code: {codes}")
    (pending,) = found.values()
    return decide(pending, source, chat.role, answer or " ".join(given))


async def help_(call: CommandCall, chat: ChatCommandContext) -> str:
    role, settings = chat.role, call.app.loaded.settings.gateway
    return await command_handlers.help_(call, lambda name: not may(role, name, settings))


async def commands(call: CommandCall, chat: ChatCommandContext) -> str:
    settings = call.app.loaded.settings
    known = list(commands_in(Surface.CHATS, settings))
    known = [each for each in known if not may(chat.role, each.name, settings.gateway)]
    pages = (len(known) + PAGE_SIZE - 1) // PAGE_SIZE
    page = int(call.arguments) if call.arguments.isdecimal() else 1
    if not 1 <= page <= pages:
        raise UsageError(f"there are pages 1 to {pages}")
    shown = known[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    lines = [
        f"- `/{each.name}{' ' if each.usage else ''}{each.usage}` {each.summary}" for each in shown
    ]
    more = f"\n\n`/commands {page + 1}` shows more." if page < pages else ""
    return "\n".join(lines) + more


async def sethome(call: CommandCall, chat: ChatCommandContext) -> str:
    source = chat.event.source
    manifest = chat.gateway.manifests[source.platform]
    from hermes.config.edit import set_variable  # only this command writes settings

    place = f"{source.chat_id}:{source.thread_id}" if source.thread_id else source.chat_id
    await asyncio.to_thread(set_variable, call.app.home, home_variable(manifest), place)
    call.app.reread_variables()
    return f"This chat is now the home channel of {manifest.label}."


async def resume(call: CommandCall, chat: ChatCommandContext) -> str:
    """Continue another session of the same user, never one of other users."""
    request = call.app.session(call.agent).request
    if not call.arguments:
        return await _own_sessions(call, request.user_id)
    try:
        found = await call.app.store.resolve(call.arguments)
    except (SessionNotFound, UsageError) as error:
        # An ambiguous title lists session ids of all users, so only the owner gets that message.
        if isinstance(error, UsageError) and not request.user_id:
            raise
        found = None
    if found is None or found.user_id != request.user_id:
        raise SessionNotFound(
            f"there is no conversation {call.arguments!r} of yours",
            hint="`/resume` alone lists them",
        )
    if found.id == call.agent.session_id:
        return "This chat is already in that session."
    await call.app.move(call.agent, found.id, chat.continue_with)
    return f"Back in {found.title or found.id}."


async def _own_sessions(call: CommandCall, user_id: str) -> str:
    source = call.app.session(call.agent).request.source
    found = await call.app.store.sessions(
        SessionFilter(sources=(source,), has_messages=True, limit=200)
    )
    mine = [each for each in found if each.user_id == user_id and not each.parent_id]
    lines = [f"- `{each.id}` {each.title or each.preview}" for each in mine[:MAX_SESSIONS]]
    hint = "`/resume ID or TITLE` continues one."
    return "\n".join((*lines, hint)) if lines else "No sessions yet."


async def restart(_call: CommandCall, chat: ChatCommandContext) -> str:
    chat.gateway.restart()
    return "Restarting. Unfinished turns continue after the restart."


async def update(_call: CommandCall, chat: ChatCommandContext) -> str:
    return chat.gateway.updates.begin(chat.event.source.target)


async def verbose(call: CommandCall, chat: ChatCommandContext) -> str:
    manifest = chat.gateway.manifests[chat.event.source.platform]
    if not manifest.capabilities.edits:
        return f"{manifest.label} cannot show tool calls."
    change = chat.gateway.display_modes.change
    wanted = await change(chat.worker.key, manifest.name, call.arguments)
    return f"Tool calls in this chat: {wanted}"


async def platforms(_call: CommandCall, chat: ChatCommandContext) -> str:
    return chat.gateway.status.summary()


async def pair(call: CommandCall, chat: ChatCommandContext) -> str:
    return await asyncio.to_thread(
        pair_command, chat.gateway.pairing, chat.event.source, call.arguments
    )


def _in_chat(
    handler: Callable[[CommandCall, ChatCommandContext], Awaitable[str]],
) -> CommandHandler:
    async def run(call: CommandCall) -> str:
        if not isinstance(call.talk, ChatCommandContext):
            raise UsageError(f"/{call.command.name} is for chats")
        return await handler(call, call.talk)

    return run


CHAT_HANDLERS: Mapping[str, CommandHandler] = {
    handler.__name__.rstrip("_"): _in_chat(handler)
    for handler in (
        new, help_, status, stop, background, agents, approve, deny, steer, commands, sethome,
        resume, restart, update, verbose, platforms, pair,
    )
}  # fmt: skip


USAGE = (
    "/pair creates an invitation code for one person.\n"
    "/pair CODE approves the person who received this code;"
    " /pair PLATFORM CODE on another platform.\n"
    "/pair list shows pending requests."
)


def pair_command(store: PairingStore, source: SessionSource, words: str) -> str:
    """Run `/pair WORDS` and return the reply. `auth.may` has already checked the role."""
    if source.chat_type not in ("dm", "private"):
        return "Pairing codes are secret: use /pair in a private chat with me."
    given = words.split()
    platform = given[0].lower() if len(given) == 2 else source.platform
    try:
        match given:
            case []:
                return (
                    f"{store.invite(platform)} gives access to the first person who sends it to me"
                    f" on {platform}, alone in a private message, within one hour."
                )
            case ["list"]:
                waiting = [
                    f"{plain_line(each.user_name) or 'unknown'} ({plain_line(each.user_id)})"
                    for each in store.pending(platform)
                ]
                return f"Pending on {platform}: {', '.join(waiting) or 'none'}."
            case [code] | [_, code]:
                user, approved = store.approve(platform, code)
                name = plain_line(approved.user_name) or "User"
                return f"{name} ({plain_line(user)}) can now write to me on {platform}."
            case _:
                return USAGE
    except HermesError as error:
        return f"{error}. {error.hint}".rstrip(". ") + "."

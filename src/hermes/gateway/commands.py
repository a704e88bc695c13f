"""A chat as slash commands see it, and the commands that only chats have."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from hermes.agent import Agent
from hermes.app import command_handlers
from hermes.app.app import App
from hermes.app.command_runner import Commands, FoundCommand
from hermes.app.commands import (
    CommandCall,
    CommandDef,
    CommandHandler,
    Surface,
    commands_in,
    exact_command,
)
from hermes.app.extensions import SlashCommand
from hermes.config.settings.abilities import QuickCommand
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, SessionNotFound, StoreError, UsageError
from hermes.core.messages import User
from hermes.gateway.auth import may
from hermes.gateway.hooks import about
from hermes.gateway.messages import OURS
from hermes.gateway.pairing import PairingStore
from hermes.gateway.platforms.kit.contract import ChatTarget, MessageEvent, SessionSource
from hermes.gateway.platforms.registry import home_variable
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import errand_key, errand_name
from hermes.ops.commands import OPS_HANDLERS
from hermes.store.records import InboxItem, InboxRow, SessionFilter
from hermes.util.plain import plain_line
from hermes.util.text import many

if TYPE_CHECKING:
    from hermes.gateway.context import GatewayContext
    from hermes.gateway.worker import ChatWorker


# Commands that must not take effect twice. Such a command is marked as begun before it does
# anything; whoever takes up a marked one after a crash asks the store what became of it.

UNKNOWN = "I was cut off while I did this. It may have taken effect; I do not do it again."

Became = Callable[[CommandCall, InboxRow], Awaitable[str | None]]
"""What a command did before it was cut off, as its answer; None when it did nothing."""


class IdempotentCommands(Commands):
    """`Commands` of one message of a chat."""

    def __init__(self, talk: "ChatCommandContext", own: "Mapping[str, CommandHandler]") -> None:
        super().__init__(talk, own)
        self._chat = talk

    async def do(self, found: FoundCommand, arguments: str) -> str:
        became = _became(found)
        if became is None:
            return await super().do(found, arguments)
        row = self._chat.row
        if row.state != "new":
            call = (
                CommandCall(found, arguments, self._chat) if isinstance(found, CommandDef) else None
            )
            told = await became(call, row) if call else UNKNOWN
            if told is not None:
                return told
        agent = self._chat.ready
        await self._chat.house.store.inbox.start_command(row.id, agent.session_id if agent else "")
        return await super().do(found, arguments)


def _became(found: FoundCommand) -> Became | None:
    """None for what may be done again: it shows something, or ends where it ended before."""
    if isinstance(found, CommandDef):
        return KNOWN.get(found.name)
    return _nobody_knows if isinstance(found, SlashCommand | QuickCommand) else None


async def _nobody_knows(_call: CommandCall, _row: InboxRow) -> str | None:
    return UNKNOWN


async def _made(call: CommandCall, row: InboxRow, reason: str) -> str:
    """The session that came of the conversation by a change; "" when there was none."""
    changes = await call.app.store.changes(row.session_id, row.log_after)
    return next((each.session_id for each in changes if each.reason == reason), "")


async def _undo(call: CommandCall, row: InboxRow) -> str | None:
    if not await _made(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    return command_handlers.undo_message(call, asked[0].text if asked else "")


async def _retry(call: CommandCall, row: InboxRow) -> str | None:
    """The question was taken back; what is left is to ask it. One that is `working` was marked anew
    when its turn began, which is after that."""
    if row.state != "working" and not await _made(call, row, "undo"):
        return None
    asked = [each for each in await call.app.store.undone(row.session_id) if isinstance(each, User)]
    if not asked:
        return UNKNOWN
    await call.talk.ask(User(asked[-1].said))
    return ""


async def _branch(call: CommandCall, row: InboxRow) -> str | None:
    made = await _made(call, row, "branch")
    return await command_handlers.into_branch(call, row.session_id, made) if made else None


async def _compress(call: CommandCall, row: InboxRow) -> str | None:
    made = await _made(call, row, "compression")
    return f"Compacted: now session `{made}`" if made else None


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


PAGE = 12
"""Commands on a page of /commands."""
MOST_SESSIONS = 10
WITH_THE_AGENT = frozenset({"btw"})
"""Commands that do something with the rights of the agent, beside a turn."""
WITHOUT_AGENT = frozenset({
    "stop", "status", "approve", "deny", "queue", "agents", "background", "help", "commands",
    "platforms", "profile", "restart", "update", "verbose",
})  # fmt: skip
"""Commands that do not wait for an agent to be opened: they take the one that is there."""


class ChatCommandContext:
    """`app.commands.talk.Talk` for one message."""

    place = Surface.CHATS

    def __init__(
        self,
        house: "GatewayContext",
        worker: "ChatWorker",
        agent: Agent | None,
        row: InboxRow,
        event: MessageEvent,
        role: Role,
    ) -> None:
        """`role` is that of who gave the command, which may be another person than whose turn
        runs. Without an agent only commands of `WITHOUT_AGENT` can be done."""
        self.house, self.worker, self.row, self.event = house, worker, row, event
        self.app: App = house.app
        self.role = role
        self._agent = agent
        self._shown: list[str] = []
        self._kept: list[str] = []
        self.question: User | None = None
        """What the command asks the agent, as /retry does."""

    @property
    def agent(self) -> Agent:
        found = self.ready
        if found is None:
            raise UsageError("there is no conversation yet")
        return found

    @property
    def ready(self) -> Agent | None:
        """The agent, if it is open."""
        return self.house.conversations.get(self.worker.key) or self._agent

    @property
    def busy(self) -> bool:
        return self.worker.busy

    async def run(self, text: str) -> bool:
        """Do what a command says; False when it is no command but a message."""
        line = _without_bot(text)
        if refused := may(self.role, line, self.app.loaded.settings.gateway):
            self.show(refused)
            return True
        name = line.split(None, 1)[0].removeprefix("/").lower()
        command = exact_command(name, Surface.CHATS)
        if command is not None and command.name in WITH_THE_AGENT and self._of_another:
            self.show(f"The agent works for somebody else here; `/{name}` can be had after that.")
            return True
        await self.tell(f"command:{name}", command=name, args=line.partition(" ")[2])
        return await IdempotentCommands(self, {**OPS_HANDLERS, **OWN}).run(line)

    async def tell(self, event: str, **facts: object) -> None:
        """Hooks hear of it."""
        await self.house.hooks.fire(event, **about(self.event.source, self.worker.key), **facts)

    @property
    def _of_another(self) -> bool:
        """Whether the agent has the rights of somebody whose role is another."""
        return self.house.conversations.role(self.worker.key) not in (None, self.role)

    async def continue_with(self, agent: Agent) -> None:
        try:
            await self.house.conversations.adopt(self.worker.key, agent)
        except StoreError:  # another chat works on it: nobody talks to this one
            await self.app.leave(agent)
            raise

    async def ask(self, message: User) -> None:
        self.question = message

    def later(self, text: str) -> None:
        self._kept.append(text)

    def show(self, markdown: str) -> None:
        self._shown.append(markdown)

    def collected(self) -> str:
        """What was shown."""
        return "\n\n".join(self._shown)

    async def keep_rest(self) -> None:
        """What is to be said after this turn, as messages of its own."""
        for number, text in enumerate(self._kept):
            event = msgspec.structs.replace(
                self.event,
                message_id=f"{OURS}later:{self.event.message_id}:{number}",
                text=text,
                media=(),
            )
            await self._keep(event, self.worker.key)
        if self._kept:
            self.worker.wake()
        self._kept.clear()

    async def steer(self, text: str) -> bool:
        """Keep a text as a message of its own, and say it into the running turn; False when it has
        to wait for the next."""
        named = f"{OURS}steer:{self.row.id}"
        event = msgspec.structs.replace(self.event, message_id=named, text=text)
        row_id = await self._keep(event, self.worker.key)
        if row_id is not None and row_id not in self.worker.doing and not event.media:
            said = self.worker.steering.say(row_id, text)
        else:
            said = False
        self.worker.wake()
        return said

    async def _keep(self, event: MessageEvent, key: str) -> int | None:
        source = event.source
        kept = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        return await self.house.store.inbox.receive(kept, self.house.now())

    async def send_off(self, goal: str) -> str:
        """Keep a task as a message of its own, and begin it; its name. Done again, it is the same
        task."""
        key = errand_key(self.worker.key, self.row.id, self.row.received_at)
        named = f"{OURS}background:{self.row.id}"
        await self._keep(msgspec.structs.replace(self.event, message_id=named, text=goal), key)
        self.house.take_up(key)
        return errand_name(key)


async def open_talk(
    house: "GatewayContext", worker: "ChatWorker", row: InboxRow, event: MessageEvent, role: Role
) -> ChatCommandContext:
    """The chat for a command, with an agent if it needs one."""
    conversations = house.conversations
    word = _without_bot(event.text).split(None, 1)[0]
    command = exact_command(word, Surface.CHATS, house.app.loaded.settings)
    agent = conversations.get(worker.key)
    bare = command is not None and command.name in WITHOUT_AGENT
    if not bare and not (worker.busy and agent is not None):
        beside = row.id in worker.aside
        agent = await conversations.open(
            worker.key, event.source, role, worker.asker, keep=lambda: beside and worker.working
        )
    return ChatCommandContext(house, worker, agent, row, event, role)


def _without_bot(text: str) -> str:
    """`/new@our_bot plan` is `/new plan`."""
    word, space, rest = text.partition(" ")
    return f"{word.partition('@')[0]}{space}{rest}"


def _chat(call: CommandCall) -> ChatCommandContext:
    if not isinstance(call.talk, ChatCommandContext):
        raise UsageError(f"/{call.command.name} is for chats")
    return call.talk


async def status(call: CommandCall) -> str:
    """Answered at once, also while the agent is still being opened."""
    talk = _chat(call)
    if talk.ready is not None:
        return await command_handlers.status(call, talk.worker.asker.state)
    row = await talk.house.store.chats.get(talk.worker.key)
    facts = {"Session": f"`{row.session_id}`" if row and row.session_id else "none yet"}
    if row and row.session_id:
        info = await call.app.store.info(row.session_id)
        facts["Session"] += f" “{info.title}”" if info.title else ""
        facts["Conversation"] = many(info.message_count, "message")
    facts["State"] = "working" if talk.worker.working else "waiting for you"
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


async def new(call: CommandCall) -> str:
    talk, old = _chat(call), call.agent.session_id
    told = await command_handlers.new(call)
    await talk.tell("session:end", session_id=old)
    for event in ("session:reset", "session:start"):
        await talk.tell(event, session_id=call.agent.session_id)
    return told


async def stop(call: CommandCall) -> str:
    """What runs beside the conversation; a turn was stopped before it came to this."""
    talk = _chat(call)
    errands = talk.house.errands(talk.worker.key)
    for errand in errands:
        errand.stop()
    if talk.ready is None:
        return command_handlers.stopped_message(len(errands))
    return await command_handlers.stop(call, already_stopped=len(errands))


async def background(call: CommandCall) -> str:
    if not call.arguments:
        raise UsageError("what is to be done?", hint="/background TASK")
    name = await _chat(call).send_off(call.arguments)
    return f"Started `{name}`; its answer comes here. `/agents` shows what runs."


async def agents(call: CommandCall) -> str:
    talk = _chat(call)
    lines = [errand.line for errand in talk.house.errands(talk.worker.key)]
    return command_handlers.format_background(
        lines + (command_handlers.list_background(call) if talk.ready else [])
    )


async def approve(call: CommandCall) -> str:
    talk = _chat(call)
    word = call.words[0].lower() if call.words else "once"
    return _asker(talk).decide(talk.event.source, talk.role, word)


async def steer(call: CommandCall) -> str:
    talk = _chat(call)
    if not call.arguments:
        raise UsageError("nothing to say", hint="/steer MESSAGE")
    if talk.busy and not talk.worker.may_steer(talk.event.source, talk.role):
        raise UsageError("somebody else's turn runs", hint="/queue MESSAGE waits for its end")
    if await talk.steer(call.arguments):
        return "The agent hears it after its next step."
    return "Kept for after this turn." if talk.busy else ""


async def deny(call: CommandCall) -> str:
    talk = _chat(call)
    return _asker(talk).decide(talk.event.source, talk.role, "deny")


def _asker(talk: ChatCommandContext) -> ChatQuestions:
    """Who asked in this conversation; else, for an owner, in the chat."""
    own = talk.worker.asker
    if own.waits or talk.role != "owner":
        return own
    return talk.house.asker_in(talk.event.source) or own


async def help_(call: CommandCall) -> str:
    role, settings = _chat(call).role, call.app.loaded.settings.gateway
    return await command_handlers.help_(call, lambda name: not may(role, name, settings))


async def commands(call: CommandCall) -> str:
    talk = _chat(call)
    settings = call.app.loaded.settings.gateway
    known = [
        each
        for each in commands_in(Surface.CHATS, call.app.loaded.settings)
        if not may(talk.role, each.name, settings)
    ]
    pages = (len(known) + PAGE - 1) // PAGE
    page = int(call.arguments) if call.arguments.isdecimal() else 1
    if not 1 <= page <= pages:
        raise UsageError(f"there are pages 1 to {pages}")
    shown = known[(page - 1) * PAGE : page * PAGE]
    lines = [
        f"- `/{each.name}{' ' if each.usage else ''}{each.usage}` {each.summary}" for each in shown
    ]
    more = f"\n\n`/commands {page + 1}` shows more." if page < pages else ""
    return "\n".join(lines) + more


async def sethome(call: CommandCall) -> str:
    talk = _chat(call)
    source = talk.event.source
    manifest = talk.house.manifests[source.platform]
    thread = f":{source.thread_id}" if source.thread_id else ""
    edit = import_module("hermes.config.edit")  # heavy, and seldom needed
    place = f"{source.chat_id}{thread}"
    await asyncio.to_thread(edit.set_variable, call.app.home, home_variable(manifest), place)
    call.app.reread_variables()
    return f"This chat is the home channel of {manifest.label} now."


async def resume(call: CommandCall) -> str:
    """Only conversations of the same person: an id is no key to those of others."""
    talk = _chat(call)
    request = call.app.session(call.agent).spec.request
    if not call.arguments:
        return await _own_sessions(call, request.user_id)
    try:
        found = await call.app.store.resolve(call.arguments)
    except (SessionNotFound, UsageError) as error:
        if isinstance(error, UsageError) and not request.user_id:  # it names ids of everybody
            raise
        raise _not_yours(call) from error
    if found.user_id != request.user_id:
        raise _not_yours(call)
    if found.id == call.agent.session_id:
        return "You are in this conversation."
    await call.app.move(call.agent, found.id, talk.continue_with)
    return f"Back in {found.title or found.id}."


def _not_yours(call: CommandCall) -> SessionNotFound:
    return SessionNotFound(
        f"there is no conversation {call.arguments!r} of yours", hint="`/resume` alone lists them"
    )


async def _own_sessions(call: CommandCall, user_id: str) -> str:
    source = call.app.session(call.agent).spec.request.source
    found = await call.app.store.sessions(SessionFilter(sources=(source,), limit=200))
    mine = [each for each in found if each.user_id == user_id and not each.parent_id]
    lines = [f"- `{each.id}` {each.title or each.preview}" for each in mine[:MOST_SESSIONS]]
    return "\n".join((*lines, "`/resume ID or TITLE` goes on with one.")) if lines else "None yet."


async def restart(call: CommandCall) -> str:
    _chat(call).house.restart()
    return "Restarting. What is not finished goes on after that."


async def update(call: CommandCall) -> str:
    talk = _chat(call)
    source = talk.event.source
    return talk.house.updates.begin(
        ChatTarget(source.platform, source.chat_id, source.thread_id, source.account)
    )


async def verbose(call: CommandCall) -> str:
    talk = _chat(call)
    manifest = talk.house.manifests[talk.event.source.platform]
    if not manifest.capabilities.edits:
        return f"{manifest.label} shows no tool calls."
    progress = talk.house.progress
    wanted = await progress.change(talk.worker.key, manifest.name, call.arguments)
    return f"Tool calls in this chat: {wanted}"


async def platforms(call: CommandCall) -> str:
    return _chat(call).house.health_lines()


async def pair(call: CommandCall) -> str:
    talk = _chat(call)
    return await asyncio.to_thread(talk.house.pair, talk.event.source, call.arguments)


OWN: Mapping[str, CommandHandler] = {
    "new": new,
    "help": help_,
    "status": status,
    "stop": stop,
    "background": background,
    "agents": agents,
    "approve": approve,
    "deny": deny,
    "steer": steer,
    "commands": commands,
    "sethome": sethome,
    "resume": resume,
    "restart": restart,
    "update": update,
    "verbose": verbose,
    "platforms": platforms,
    "pair": pair,
}


# `/pair` in a chat: an owner invites somebody, or approves who asked.

USAGE = (
    "/pair makes a code that lets in whoever sends it to me.\n"
    "/pair CODE lets in who got this code from me; /pair PLATFORM CODE on another platform.\n"
    "/pair list shows who waits."
)


def pair_command(store: PairingStore, source: SessionSource, words: str) -> str:
    """What to answer to `/pair WORDS`. Whether the user may is for `roles.may` to say."""
    if source.chat_type not in ("dm", "private"):
        return "Codes are not for everybody to see: use /pair in a private chat with me."
    try:
        return _done(store, source.platform, words.split())
    except HermesError as error:
        return f"{error}. {error.hint}".rstrip(". ") + "."


def _done(store: PairingStore, platform: str, words: list[str]) -> str:
    match words:
        case []:
            code = store.invite(platform)
            return (
                f"{code} lets in the first who sends it to me on {platform}, alone in a private"
                " message, within an hour."
            )
        case ["list"]:
            waiting = [
                f"{plain_line(each.user_name) or 'somebody'} ({plain_line(each.user_id)})"
                for each in store.pending(platform)
            ]
            return f"Waiting on {platform}: {', '.join(waiting) or 'nobody'}."
        case [code]:
            return _approved(store, platform, code)
        case [other, code]:
            return _approved(store, other.lower(), code)
        case _:
            return USAGE


def _approved(store: PairingStore, platform: str, code: str) -> str:
    user, approved = store.approve(platform, code)
    name = plain_line(approved.user_name)
    return f"{name or 'User'} ({plain_line(user)}) may talk to me on {platform} now."

"""What comes from Slack, on its way to the gateway. A message is acknowledged only when it is kept
or is not for us."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.request import SocketModeRequest

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import ChatQueues, TaskSet, cancel_and_wait
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    ChatType,
    Media,
    MessageEvent,
    Receive,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import (
    ReadPosition,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    remember,
)
from hermes.gateway.platforms.kit.media import MediaCache, MediaTooLarge, media_kind
from hermes.gateway.platforms.slack.client import (
    GONE,
    LOOKING_UP,
    NO_NAMES,
    PAGE,
    SCALE,
    TROUBLE,
    Call,
    Json,
    Names,
    Options,
    Socket,
    Workspace,
    code_of,
    mentions,
    message_id,
    micros,
    pages,
    patiently,
    readable,
    ts_at,
    ts_of,
)

# What people wrote on Slack, as events of ours.

PLATFORM = "slack"
SPOKEN = frozenset({"", "file_share", "bot_message", "thread_broadcast", "me_message"})
"""Kinds of messages that somebody wrote. The rest tells of edits, joins, topics."""
NOT_THERE = frozenset({"tombstone", "hidden_by_limit"})
"""Files that were deleted or are not shown any more."""
QUOTED = 500
"""Characters of a message that is answered."""


class File(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    title: str = ""
    mimetype: str = ""
    size: int = 0
    mode: str = ""
    subtype: str = ""
    is_external: bool = False
    url_private: str = ""


class Attachment(msgspec.Struct, frozen=True):
    title: str = ""
    text: str = ""
    fallback: str = ""
    author_name: str = ""
    is_share: bool = False


class Said(msgspec.Struct, frozen=True):
    """A message as Slack has it."""

    ts: str
    channel: str = ""
    channel_type: str = ""
    user: str = ""
    username: str = ""
    bot_id: str = ""
    subtype: str = ""
    text: str = ""
    thread_ts: str = ""
    parent_user_id: str = ""
    user_team: str = ""
    hidden: bool = False
    files: tuple[File, ...] = ()
    attachments: tuple[Attachment, ...] = ()

    @property
    def thread(self) -> str:
        """ "" for the first message of a thread."""
        return self.thread_ts if self.thread_ts != self.ts else ""

    @property
    def is_private(self) -> bool:
        return is_private(self.channel, self.channel_type)

    @property
    def is_bot(self) -> bool:
        return bool(self.bot_id) or self.subtype == "bot_message"

    @property
    def is_spoken(self) -> bool:
        return self.subtype in SPOKEN and not self.hidden


def said(data: Mapping[str, Any]) -> Said:
    """Raises `msgspec.ValidationError` for what is no message."""
    return msgspec.convert(_filled(dict(data)), Said)


def is_private(channel: str, channel_type: str = "") -> bool:
    return channel_type == "im" or (not channel_type and channel.startswith("D"))


def source_of(
    workspace: Workspace, channel: str, user_id: str, *, private: bool, thread: str = ""
) -> SessionSource:
    """Without names."""
    chat_type: ChatType = "dm" if private else "group"
    return SessionSource(
        platform=PLATFORM,
        chat_id=workspace.chat_id(channel),
        chat_type=chat_type,
        user_id=user_id,
        thread_id=thread,
    )


def event_of(
    message: Said, workspace: Workspace, *, in_talk: bool = False, in_threads: bool = False
) -> MessageEvent:
    """Without names. `in_talk`: we take part in its thread, so that no mention is needed.
    `in_threads`: what is written in a channel is answered in a thread of its own."""
    thread = message.thread
    if in_threads and not thread and not message.is_private:
        thread = message.ts
    source = source_of(
        workspace,
        message.channel,
        workspace.user_id(message.user or message.bot_id, message.user_team),
        private=message.is_private,
        thread=thread,
    )
    addressed = (
        message.is_private
        or in_talk
        or message.parent_user_id == workspace.me
        or mentions(message.text, workspace.me)
    )
    return MessageEvent(
        source=msgspec.structs.replace(source, is_bot=message.is_bot),
        message_id=message_id(source.chat_id, message.ts),
        text=text_of(message, NO_NAMES, workspace.me),
        media=tuple(_media(message, workspace)),
        addressed=addressed,
        sent_at=float(message.ts),
    )


def named(event: MessageEvent, message: Said, names: Names, me: str) -> MessageEvent:
    """The same with names in place of ids."""
    source = event.source
    user = names.users.get(message.user) or message.username
    channel = names.channels.get(message.channel)
    place = user if source.chat_type == "dm" else f"#{channel}" if channel else ""
    return msgspec.structs.replace(
        event,
        source=msgspec.structs.replace(source, user_name=user, chat_name=place),
        text=text_of(message, names, me),
    )


def answering(event: MessageEvent, root: Said, names: Names) -> MessageEvent:
    """The same with the first message of its thread."""
    return msgspec.structs.replace(
        event,
        reply_to_id=message_id(event.source.chat_id, root.ts),
        reply_to_text=text_of(root, names)[:QUOTED],
    )


def text_of(message: Said, names: Names = NO_NAMES, me: str = "") -> str:
    return "\n".join(filter(None, _texts(message, names, me)))


def _texts(message: Said, names: Names, me: str) -> Iterator[str]:
    yield readable(message.text, names, me)
    for attachment in message.attachments:
        if attachment.is_share:
            by = f" from {attachment.author_name}" if attachment.author_name else ""
            yield f"[forwarded{by}] {readable(attachment.text or attachment.fallback, names)}"
        elif message.is_bot:  # of people they are only previews of their links
            words = attachment.text or attachment.fallback
            yield "\n".join(filter(None, (attachment.title, readable(words, names))))
    for file in message.files:
        if file.is_external:
            yield f"[file: {file.title or file.name}] {file.url_private}"


def _media(message: Said, workspace: Workspace) -> Iterator[Media]:
    for file in message.files:
        if file.is_external or file.mode in NOT_THERE:
            continue
        kind = "voice" if file.subtype == "slack_audio" else media_kind(file.mimetype, file.name)
        ref = workspace.chat_id(file.id)
        yield Media(kind, file.name or file.title, file.mimetype, file.size, ref=ref)


def _filled(value: Any) -> Any:
    """Without what is null: Slack leaves fields out or empties them, as it likes."""
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_filled(each) for each in value if each is not None]
    return value


# Slash commands and buttons.

OURS = "/hermes"
HELP = "/help"


class Command(msgspec.Struct, frozen=True):
    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str = ""
    team_id: str = ""


def command_of(payload: Mapping[str, Any]) -> Command:
    """Raises `msgspec.ValidationError`."""
    given = {name: value for name, value in payload.items() if value is not None}
    return msgspec.convert(given, Command)


def interactions_text_of(command: Command) -> str:
    """As if it had been written: `/hermes /stop` is `/stop`, `/hermes hello` is `hello`, and
    `/stop`, where the app has a command of that name, is itself."""
    said = readable(command.text).strip()
    if command.command == OURS:
        return said or HELP
    return f"{command.command} {said}".strip()


async def event_of_command(
    command: Command, workspace: Workspace, now: float
) -> MessageEvent | None:
    """Commands can be used where we are not; then the answer comes in private. None when it could
    not come anywhere."""
    channel = command.channel_id
    known = None if is_private(channel) else await workspace.channel(channel)
    if known is None or not known.is_member:
        try:
            async with asyncio.timeout(LOOKING_UP):
                channel = await workspace.private_chat(command.user_id)
        except TROUBLE:
            return None
    await workspace.meet(command.user_id, command.team_id)
    private = is_private(channel)
    source = source_of(
        workspace,
        channel,
        workspace.user_id(command.user_id, command.team_id),
        private=private,
    )
    name = command.user_name if private or known is None else f"#{known.name}"
    return MessageEvent(
        source=msgspec.structs.replace(source, user_name=command.user_name, chat_name=name),
        message_id=f"{source.chat_id}:command:{command.trigger_id}",
        text=interactions_text_of(command),
        addressed=True,
        sent_at=now,
    )


def user_of(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Who pressed, and of which workspace they are."""
    return str(payload["user"]["id"]), str(payload["user"].get("team_id") or "")


def channel_of(payload: Mapping[str, Any]) -> str:
    container = payload.get("container") or {}
    return str((payload.get("channel") or {}).get("id") or container["channel_id"])


def presses_of(payload: Mapping[str, Any], workspace: Workspace) -> Iterator[MessageEvent]:
    """Buttons of ours that were pressed. Who pressed is who Slack says."""
    container, message = payload.get("container") or {}, payload.get("message") or {}
    channel = channel_of(payload)
    user, team = user_of(payload)
    ts = str(container.get("message_ts") or message["ts"])
    thread = str(container.get("thread_ts") or message.get("thread_ts") or "")
    for action in payload.get("actions") or ():
        if action.get("type") != "button" or not action.get("value"):
            continue
        source = source_of(
            workspace,
            channel,
            workspace.user_id(user, team),
            private=is_private(channel),
            thread=thread if thread != ts else "",
        )
        at = str(action.get("action_ts") or "")
        yield MessageEvent(
            source=source,
            message_id=f"{source.chat_id}:press:{ts}:{at}:{user}",
            reply_to_id=message_id(source.chat_id, ts),
            addressed=True,
            sent_at=float(at or ts),
            button=str(action["value"]),
        )


def interactions_named(event: MessageEvent, names: Names) -> MessageEvent:
    name = next(iter(names.users.values()), "")
    source = msgspec.structs.replace(event.source, user_name=name)
    return msgspec.structs.replace(event, source=source)


# What was written while nobody was connected. Slack keeps it, but does not deliver it.

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Channels asked side by side."""
MOST = 500
"""Messages of one channel or thread."""
MOST_THREADS = 20
"""Threads of one channel that are looked into."""
CLOSED = GONE | {"missing_scope", "no_permission"}
"""Why a channel cannot be read; the others can."""


async def missed(workspace: Workspace, seen: ReadPosition[str], since: str) -> list[Said]:
    """All messages after `since`, oldest first, with their channel: of channels we are in, and of
    threads that we talk in or that began since then. Raises what a call may raise."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def of(conversation: Json) -> list[Said]:
        async with gate:
            return await _of_channel(workspace, seen, conversation, since)

    found = await asyncio.gather(*map(of, await workspace.conversations()))
    return sorted((each for some in found for each in some), key=lambda each: micros(each.ts))


async def after(call: Call, since: str, most: int, **where: Any) -> Sequence[Json]:
    """Messages after `since`, of a channel newest first, of a thread oldest first. Raises what a
    call may raise."""
    found: list[Json] = []
    async for page in pages(call, oldest=since, limit=PAGE, **where):
        found += page.get("messages") or ()
        if len(found) >= most:
            break
    return found


async def _of_channel(
    workspace: Workspace, seen: ReadPosition[str], conversation: Json, since: str
) -> list[Said]:
    channel, client = str(conversation["id"]), workspace.client
    kind = "im" if conversation.get("is_im") else "channel"
    try:
        found = {
            each["ts"]: each
            for each in await after(client.conversations_history, since, MOST, channel=channel)
        }
        fresh = [ts for ts, each in found.items() if each.get("latest_reply")]
        known = _threads_of(workspace.chat_id(channel), seen)
        for thread in dict.fromkeys([*known, *fresh[:MOST_THREADS]]):
            replies = await _replies(workspace, channel, thread, since)
            found |= {each["ts"]: each for each in replies}
    except SlackApiError as error:
        if code_of(error) not in CLOSED:
            raise
        logger.debug("a channel of Slack cannot be read: %s", code_of(error))
        return []
    if len(found) >= MOST:
        logger.warning("a channel of Slack has more than %d new messages", MOST)
    return list(
        _read({**each, "channel": channel, "channel_type": kind} for each in found.values())
    )


def _threads_of(chat_id: str, seen: ReadPosition[str]) -> list[str]:
    """Those of a chat that were used last."""
    names = [name for name in seen.threads if name.rpartition(":")[0] == chat_id]
    return [ts_of(name) for name in names[-MOST_THREADS:]]


def _read(found: Iterable[Json]) -> Iterator[Said]:
    for each in found:
        try:
            yield said(each)
        except msgspec.ValidationError as error:
            logger.error("a message of Slack cannot be read: %s", error)


async def _replies(workspace: Workspace, channel: str, thread: str, since: str) -> list[Json]:
    """Without the first message of the thread, which always comes along."""
    try:
        found = await after(
            workspace.client.conversations_replies, since, MOST, channel=channel, ts=thread
        )
    except SlackApiError as error:
        if code_of(error) not in CLOSED:
            raise
        return []  # it was deleted
    return [each for each in found if micros(str(each["ts"])) > micros(since)]


HEARD = frozenset({"message", "app_mention"})
LONGEST_PAUSE = 30.0
HELD = 2.5
"""Seconds that what comes now waits for what was missed."""
LIMITED = 60.0
"""Seconds that Slack leaves out messages for when there are too many."""
MOST_CHATS = 2000


class Intake:
    def __init__(
        self,
        workspaces: Sequence[Workspace],
        options: Options,
        seen: ReadPosition[str],
        receive: Receive,
        clock: Clock,
    ) -> None:
        self._workspaces, self._options, self._seen = workspaces, options, seen
        self._receive, self._clock = receive, clock
        self._rules = group_rules(options.settings)
        self._lanes = ChatQueues("Slack")
        self._tasks = TaskSet()
        self._catching_up: asyncio.Task[None] | None = None
        self._held: list[tuple[Workspace, Said, str]] | None = None
        """What comes while we look for what was missed."""
        self._patience: asyncio.TimerHandle | None = None
        self.socket = Socket(self._heard, self._began)
        self.newest: dict[str, str] = {}
        """The newest message of chats, by its time."""
        self.spoken: dict[str, str] = {}
        """The newest message of somebody else."""

    async def close(self) -> None:
        if self._patience:
            self._patience.cancel()
        await cancel_and_wait(self._catching_up)
        await self._tasks.close()
        await self._lanes.close()
        await self.socket.close()

    def saw(self, chat_id: str, ts: str, *, others: bool = False) -> None:
        """A message is there."""
        for known in (self.newest, self.spoken) if others else (self.newest,):
            remember(known, chat_id, max(known.get(chat_id, ""), ts, key=micros), MOST_CHATS)

    # from the connection

    def _began(self) -> None:
        if not self._seen.start(self._now()):
            return
        if self._held is None:
            self._held = []
        if self._patience:
            self._patience.cancel()
        self._patience = asyncio.get_running_loop().call_later(HELD, self._release, [])
        if self._catching_up:
            self._catching_up.cancel()
        self._catching_up = asyncio.create_task(self._catch_up())

    def _heard(self, request: SocketModeRequest) -> None:
        envelope, payload = request.envelope_id, request.payload
        try:
            if request.type == "events_api" and self._is_message(envelope, payload):
                return
            if request.type == "slash_commands":
                self._command(envelope, payload)
                return
            if request.type == "interactive":
                self._pressed(payload)
        except (msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
            logger.error("Slack sent something that cannot be read: %s", error)
        self._tasks.start(self.socket.acknowledge(envelope))

    def _is_message(self, envelope: str, payload: Mapping[str, Any]) -> bool:
        """Whether it will be acknowledged later."""
        if payload.get("type") == "app_rate_limited":
            logger.warning("Slack leaves out messages: there are more than it delivers in an hour")
            self._tasks.start(self._after_limit())
            return False
        event = payload.get("event") or {}
        teams = [each.get("team_id") for each in payload.get("authorizations") or ()]
        workspace = self._workspace([*teams, payload.get("team_id")])
        if event.get("type") not in HEARD or workspace is None:
            return False
        message = said(event)
        chat_id = workspace.chat_id(message.channel)
        ours = workspace.is_ours(message.user, message.bot_id)
        if not message.is_spoken:
            return False
        self.saw(chat_id, message.ts, others=not ours)
        if ours or self._seen.is_done(message_id(chat_id, message.ts)):
            return False
        if self._held is not None:
            self._held.append((workspace, message, envelope))
        else:
            self._put(workspace, message, envelope)
        return True

    def _command(self, envelope: str, payload: Mapping[str, Any]) -> None:
        workspace = self._workspace([payload.get("team_id")])
        command = command_of(payload)
        if workspace is None:
            return

        async def take() -> None:
            event = await event_of_command(command, workspace, self._now())
            if event is not None and is_for_us(event, self._rules):
                await deliver_until_accepted(self._receive, event, self._clock.sleep)
            await self.socket.acknowledge(envelope)

        self._lanes.put(workspace.chat_id(command.channel_id), take)

    def _pressed(self, payload: Mapping[str, Any]) -> None:
        """Acknowledged at once: whoever presses a button sees that it was."""
        team = payload.get("team") or {}
        workspace = self._workspace([team.get("id")])
        if workspace is None or payload.get("type") != "block_actions":
            return
        user, team = user_of(payload)
        channel = channel_of(payload)

        async def take() -> None:
            await workspace.meet(user, team)
            names = await workspace.names("", [user])
            for event in presses_of(payload, workspace):
                named = interactions_named(event, names)
                await deliver_until_accepted(self._receive, named, self._clock.sleep)

        self._lanes.put(workspace.chat_id(channel), take)

    # messages

    def _put(self, workspace: Workspace, message: Said, envelope: str) -> None:
        name = message_id(workspace.chat_id(message.channel), message.ts)
        if not self._seen.is_done(name):
            self._seen.mark_pending(name)
        self._lanes.put(
            workspace.chat_id(message.channel),
            partial(self._take, workspace, message, envelope, name),
        )

    async def _take(self, workspace: Workspace, message: Said, envelope: str, name: str) -> None:
        if not self._seen.is_done(name):
            event = await self._event(workspace, message)
            if event is not None:
                await deliver_until_accepted(self._receive, event, self._clock.sleep)
            self._seen.mark_done(name)
        await self.socket.acknowledge(envelope)

    async def _event(self, workspace: Workspace, message: Said) -> MessageEvent | None:
        """None when it is not for us."""
        chat_id = workspace.chat_id(message.channel)
        await workspace.meet(message.user, message.user_team)
        in_talk = bool(message.thread) and self._seen.has_thread(
            message_id(chat_id, message.thread)
        )
        event = event_of(message, workspace, in_talk=in_talk, in_threads=self._options.threads)
        says = event.text.strip() or event.media
        if not says or not is_for_us(event, self._rules):
            return None
        names = await workspace.names(message.text, [message.user], message.channel)
        event = named(event, message, names, workspace.me)
        if message.thread and not in_talk:  # what it is about was said before we came
            root = await self._root(workspace, message)
            if root is not None:
                event = answering(event, root, await workspace.names(root.text))
        return event

    async def _root(self, workspace: Workspace, message: Said) -> Said | None:
        try:
            async with asyncio.timeout(LOOKING_UP):
                answer = await workspace.client.conversations_replies(
                    channel=message.channel, ts=message.thread, limit=1
                )
            return said(answer["messages"][0])
        except (*TROUBLE, msgspec.ValidationError, LookupError) as error:
            logger.debug("the beginning of a thread is not known: %s", type(error).__name__)
            return None

    # what was missed

    async def _catch_up(self) -> None:
        """What was missed comes before what comes now, as far as it is found soon enough."""
        pause = 1.0
        since = ts_at(SCALE.time_of(self._seen.missed_since(self._now())))
        while True:
            try:
                found = [
                    (workspace, message)
                    for workspace in self._workspaces
                    for message in await missed(workspace, self._seen, since)
                ]
            except TROUBLE as error:
                logger.warning("what was missed on Slack cannot be asked for yet: %s", error)
                self._release([])
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._release(found)
                self._seen.caught_up()
                return

    async def _after_limit(self) -> None:
        """What Slack leaves out for a minute is asked for when that is over."""
        self._seen.start(self._now())
        await self._clock.sleep(LIMITED)
        self._began()

    def _release(self, found: list[tuple[Workspace, Said]]) -> None:
        for workspace, message in found:
            chat_id = workspace.chat_id(message.channel)
            if message.is_spoken and not workspace.is_ours(message.user, message.bot_id):
                self.saw(chat_id, message.ts, others=True)
                if not self._seen.is_known(message_id(chat_id, message.ts)):
                    self._put(workspace, message, "")
        held, self._held = self._held or [], None
        for waiting in held:
            self._put(*waiting)

    def _workspace(self, teams: Sequence[object]) -> Workspace | None:
        """The one of a team; where we are in one only, it is that one."""
        for workspace in self._workspaces:
            if workspace.team in teams:
                return workspace
        return self._workspaces[0] if len(self._workspaces) == 1 else None

    def _now(self) -> float:
        return self._clock.now().timestamp()


# Files that people sent.

CHUNK = 65_536
DOWNLOADING = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
HOSTS = (".slack.com", ".slack-edge.com", ".slack-files.com")


async def fetch(
    workspace: Workspace,
    file: str,
    media: Media,
    limit: int,
    session: aiohttp.ClientSession,
    cache: MediaCache,
) -> Media:
    """The file in the cache. Raises `AdapterError`."""
    try:
        data = (await patiently(workspace.client.files_info, file=file))["file"]
        if int(data.get("size") or 0) > limit:
            raise MediaTooLarge(media.name or "the file", limit)
        url = str(data.get("url_private_download") or data.get("url_private") or "")
        if not _is_slacks(url, workspace.client.base_url):
            raise AdapterError("the file is not on Slack")
        headers = {"Authorization": f"Bearer {workspace.client.token}"}
        async with session.get(
            url,
            headers=headers,
            allow_redirects=False,
            timeout=DOWNLOADING,
            proxy=workspace.client.proxy,
        ) as response:
            if response.status != 200:  # who may not see it is sent to the page for signing in
                raise AdapterError(
                    f"Slack answered {response.status} for the file",
                    hint="The app needs the scope files:read.",
                )
            return await cache.save(response.content.iter_chunked(CHUNK), media, limit)
    except TROUBLE as error:
        what = code_of(error) or type(error).__name__
        raise AdapterError(f"the file did not come from Slack: {what}") from error


def _is_slacks(url: str, base_url: str) -> bool:
    """Our token goes nowhere else."""
    there, api = urlsplit(url), urlsplit(base_url)
    if (there.scheme, there.netloc) == (api.scheme, api.netloc):
        return True
    return there.scheme == "https" and (there.hostname or "").endswith(HOSTS)

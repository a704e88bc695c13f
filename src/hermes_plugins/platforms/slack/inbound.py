"""Inbound messages: parsing, commands and buttons, catching up on missed messages, downloads.

A message is acknowledged only when the gateway has stored it or it is not for us.
"""

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

from hermes.sdk import Clock
from hermes.sdk.platforms import (
    AdapterError,
    CatchUpQueue,
    ChatQueues,
    Media,
    MediaCache,
    MediaTooLarge,
    MessageEvent,
    ReadPosition,
    Receive,
    SessionSource,
    TaskSet,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    media_kind,
    remember,
)
from hermes_plugins.platforms.slack.client import (
    CALL_ERRORS,
    GONE_ERRORS,
    LOOKUP_SECONDS,
    NO_NAMES,
    PAGE_SIZE,
    SCALE,
    Call,
    Json,
    SlackNames,
    SlackOptions,
    SlackSocket,
    SlackWorkspace,
    error_code,
    mentions,
    message_id,
    micros,
    pages,
    readable_text,
    retry_rate_limited,
    timestamp_at,
    timestamp_of,
)

logger = logging.getLogger(__name__)
PLATFORM = "slack"
USER_SUBTYPES = frozenset({"", "file_share", "bot_message", "thread_broadcast", "me_message"})
"""Subtypes of messages written by users or bots. The others report edits, joins, topics."""
HIDDEN_FILE_MODES = frozenset({"tombstone", "hidden_by_limit"})
"""Files that were deleted or are hidden."""
MAX_QUOTE = 500  #: Characters of a quoted message.
OWN_COMMAND = "/hermes"
HELP_COMMAND = "/help"
MAX_PARALLEL_CHANNELS = 4  #: Channels requested in parallel.
MAX_MESSAGES = 500  #: Messages read of one channel or thread.
MAX_THREADS = 20  #: Threads read of one channel.
UNREADABLE_CHANNEL_ERRORS = GONE_ERRORS | {"missing_scope", "no_permission"}
"""Errors for a channel that cannot be read, while others can."""
MESSAGE_EVENTS = frozenset({"message", "app_mention"})
HOLD_SECONDS = 2.5  #: Seconds that new messages wait for missed ones.
LIMIT_SECONDS = 60.0  #: Seconds for which Slack drops messages when there are too many.
MAX_CHATS = 2000
CHUNK = 65_536
DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
SLACK_HOSTS = (".slack.com", ".slack-edge.com", ".slack-files.com")


class SlackFile(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    title: str = ""
    mimetype: str = ""
    size: int = 0
    mode: str = ""
    subtype: str = ""
    is_external: bool = False
    url_private: str = ""


class SlackAttachment(msgspec.Struct, frozen=True):
    title: str = ""
    text: str = ""
    fallback: str = ""
    author_name: str = ""
    is_share: bool = False


class SlackMessage(msgspec.Struct, frozen=True):
    """A message as Slack sends it."""

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
    files: tuple[SlackFile, ...] = ()
    attachments: tuple[SlackAttachment, ...] = ()

    @property
    def thread(self) -> str:
        """The thread; "" for the first message of a thread."""
        return self.thread_ts if self.thread_ts != self.ts else ""

    @property
    def is_private(self) -> bool:
        return is_private(self.channel, self.channel_type)

    @property
    def is_bot(self) -> bool:
        return bool(self.bot_id) or self.subtype == "bot_message"

    @property
    def is_user_message(self) -> bool:
        return self.subtype in USER_SUBTYPES and not self.hidden


def parse_message(data: Mapping[str, Any]) -> SlackMessage:
    """Parse a message. Raises `msgspec.ValidationError`."""
    return msgspec.convert(_drop_nulls(dict(data)), SlackMessage)


def is_private(channel: str, channel_type: str = "") -> bool:
    return channel_type == "im" or (not channel_type and channel.startswith("D"))


def make_event(
    message: SlackMessage,
    workspace: SlackWorkspace,
    names: SlackNames = NO_NAMES,
    *,
    in_talk: bool = False,
    in_threads: bool = False,
) -> MessageEvent:
    """Return the event. `in_talk`: we take part in its thread, so no mention is needed.
    `in_threads`: a message in a channel is answered in a thread of its own."""
    private, me = message.is_private, workspace.me
    user, channel = names.users.get(message.user, ""), names.channels.get(message.channel, "")
    user = user or message.username
    source = SessionSource(
        platform=PLATFORM,
        chat_id=workspace.chat_id(message.channel),
        chat_type="dm" if private else "group",
        user_id=workspace.user_id(message.user or message.bot_id, message.user_team),
        user_name=user,
        chat_name=user if private else f"#{channel}" if channel else "",
        thread_id=message.thread or (message.ts if in_threads and not private else ""),
        is_bot=message.is_bot,
    )
    addressed = private or in_talk or message.parent_user_id == me or mentions(message.text, me)
    return MessageEvent(
        source=source,
        message_id=message_id(source.chat_id, message.ts),
        text=message_text(message, names, me),
        media=tuple(_media(message, workspace)),
        addressed=addressed,
        sent_at=float(message.ts),
    )


def message_text(message: SlackMessage, names: SlackNames = NO_NAMES, me: str = "") -> str:
    return "\n".join(filter(None, _text_parts(message, names, me)))


class SlackCommand(msgspec.Struct, frozen=True):
    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str = ""
    team_id: str = ""


def parse_command(payload: Mapping[str, Any]) -> SlackCommand:
    """Parse a slash command. Raises `msgspec.ValidationError`."""
    given = {name: value for name, value in payload.items() if value is not None}
    return msgspec.convert(given, SlackCommand)


def command_text(command: SlackCommand) -> str:
    """Return a command as typed text: `/hermes /stop` becomes `/stop`, `/hermes hello` becomes
    `hello`, and a `/stop` command of the app stays."""
    text = readable_text(command.text).strip()
    if command.command == OWN_COMMAND:
        return text or HELP_COMMAND
    return f"{command.command} {text}".strip()


async def make_command_event(
    command: SlackCommand, workspace: SlackWorkspace, now: float
) -> MessageEvent | None:
    """Return the event of a slash command. In channels we are not in, the answer goes to the
    private chat. None when there is no place for the answer."""
    channel = command.channel_id
    known = None if is_private(channel) else await workspace.channel(channel)
    if known is None or not known.is_member:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                channel = await workspace.private_chat(command.user_id)
        except CALL_ERRORS:
            return None
    await workspace.look_up_enterprise(command.user_id, command.team_id)
    private = is_private(channel)
    source = SessionSource(
        platform=PLATFORM,
        chat_id=workspace.chat_id(channel),
        chat_type="dm" if private else "group",
        user_id=workspace.user_id(command.user_id, command.team_id),
        user_name=command.user_name,
        chat_name=command.user_name if private or known is None else f"#{known.name}",
    )
    return MessageEvent(
        source=source,
        message_id=f"{source.chat_id}:command:{command.trigger_id}",
        text=command_text(command),
        addressed=True,
        sent_at=now,
    )


def pressed_by(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the user who pressed a button, and their workspace."""
    return str(payload["user"]["id"]), str(payload["user"].get("team_id") or "")


def payload_channel(payload: Mapping[str, Any]) -> str:
    container = payload.get("container") or {}
    return str((payload.get("channel") or {}).get("id") or container["channel_id"])


def button_events(
    payload: Mapping[str, Any], workspace: SlackWorkspace, user_name: str = ""
) -> Iterator[MessageEvent]:
    """Yield an event for each of our buttons that was pressed. The user is the one Slack
    reports."""
    container, message = payload.get("container") or {}, payload.get("message") or {}
    channel = payload_channel(payload)
    user, team = pressed_by(payload)
    ts = str(container.get("message_ts") or message["ts"])
    thread = str(container.get("thread_ts") or message.get("thread_ts") or "")
    for action in payload.get("actions") or ():
        if action.get("type") != "button" or not action.get("value"):
            continue
        source = SessionSource(
            platform=PLATFORM,
            chat_id=workspace.chat_id(channel),
            chat_type="dm" if is_private(channel) else "group",
            user_id=workspace.user_id(user, team),
            user_name=user_name,
            thread_id=thread if thread != ts else "",
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


async def fetch_missed(
    workspace: SlackWorkspace, seen: ReadPosition[str], since: str
) -> list[SlackMessage]:
    """Return all messages after `since`, oldest first: of our channels, and of threads that we take
    part in or that have new replies. Raises any of `CALL_ERRORS`."""
    gate = asyncio.Semaphore(MAX_PARALLEL_CHANNELS)

    async def of(conversation: Json) -> list[SlackMessage]:
        async with gate:
            return await _fetch_channel(workspace, seen, conversation, since)

    found = await asyncio.gather(*map(of, await workspace.conversations()))
    return sorted((each for some in found for each in some), key=lambda each: micros(each.ts))


async def fetch_after(call: Call, since: str, most: int, **where: Any) -> Sequence[Json]:
    """Return messages after `since`; of a channel newest first, of a thread oldest first. Raises
    any of `CALL_ERRORS`."""
    found: list[Json] = []
    async for page in pages(call, oldest=since, limit=PAGE_SIZE, **where):
        found += page.get("messages") or ()
        if len(found) >= most:
            break
    return found


_Waiting = tuple[SlackWorkspace, SlackMessage, str]
"""A message with its workspace and the envelope to acknowledge; "" for a fetched message."""


class SlackInbound:
    """Receives the requests of the socket and delivers messages in the order of their channels."""

    def __init__(
        self,
        workspaces: Sequence[SlackWorkspace],
        options: SlackOptions,
        seen: ReadPosition[str],
        receive: Receive,
        clock: Clock,
    ) -> None:
        self._workspaces, self._options, self._position = workspaces, options, seen
        self._receive, self._clock = receive, clock
        self._rules = group_rules(options.settings)
        self._queues = ChatQueues("Slack")
        self._tasks = TaskSet()
        self._catch_up: CatchUpQueue[_Waiting] = CatchUpQueue(
            seen,
            self._fetch_missed,
            self._release,
            CALL_ERRORS,
            longest=HOLD_SECONDS,
            sleep=clock.sleep,
        )
        self.socket = SlackSocket(self._handle_request, self._on_connect)
        self.newest: dict[str, str] = {}  #: Timestamp of the newest message of each chat.
        self.newest_by_others: dict[str, str] = {}
        """Timestamp of the newest message of another author."""

    async def close(self) -> None:
        await self._catch_up.close()
        await self._tasks.close()
        await self._queues.close()
        await self.socket.close()

    def record_message(self, chat_id: str, ts: str, *, others: bool = False) -> None:
        """Record a message that is in the chat."""
        for known in (self.newest, self.newest_by_others) if others else (self.newest,):
            remember(known, chat_id, max(known.get(chat_id, ""), ts, key=micros), MAX_CHATS)

    def _on_connect(self) -> None:
        if self._position.start(self._now()):
            self._catch_up.start()

    def _handle_request(self, request: SocketModeRequest) -> None:
        envelope, payload = request.envelope_id, request.payload
        try:
            if request.type == "events_api" and self._handle_event(envelope, payload):
                return
            if request.type == "slash_commands":
                self._handle_command(envelope, payload)
                return
            if request.type == "interactive":
                self._handle_button(payload)
        except (msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
            logger.error("Slack sent something that cannot be read: %s", error)
        self._tasks.start(self.socket.acknowledge(envelope))

    def _handle_event(self, envelope: str, payload: Mapping[str, Any]) -> bool:
        """Handle an event; return True if it will be acknowledged later."""
        if payload.get("type") == "app_rate_limited":
            logger.warning("Slack drops messages: its hourly limit is exceeded")
            self._tasks.start(self._catch_up_after_limit())
            return False
        event = payload.get("event") or {}
        teams = [each.get("team_id") for each in payload.get("authorizations") or ()]
        workspace = self._workspace([*teams, payload.get("team_id")])
        if event.get("type") not in MESSAGE_EVENTS or workspace is None:
            return False
        message = parse_message(event)
        chat_id = workspace.chat_id(message.channel)
        ours = workspace.is_ours(message.user, message.bot_id)
        if not message.is_user_message:
            return False
        self.record_message(chat_id, message.ts, others=not ours)
        if ours or self._position.is_done(message_id(chat_id, message.ts)):
            return False
        if not self._catch_up.hold((workspace, message, envelope)):
            self._enqueue(workspace, message, envelope)
        return True

    def _handle_command(self, envelope: str, payload: Mapping[str, Any]) -> None:
        workspace = self._workspace([payload.get("team_id")])
        command = parse_command(payload)
        if workspace is None:
            return

        async def take() -> None:
            event = await make_command_event(command, workspace, self._now())
            if event is not None and is_for_us(event, self._rules):
                await deliver_until_accepted(self._receive, event, self._clock.sleep)
            await self.socket.acknowledge(envelope)

        self._queues.put(workspace.chat_id(command.channel_id), take)

    def _handle_button(self, payload: Mapping[str, Any]) -> None:
        """Handle a button. It is acknowledged at once, so that the user sees an effect."""
        team = payload.get("team") or {}
        workspace = self._workspace([team.get("id")])
        if workspace is None or payload.get("type") != "block_actions":
            return
        user, team = pressed_by(payload)
        channel = payload_channel(payload)

        async def take() -> None:
            await workspace.look_up_enterprise(user, team)
            names = await workspace.names("", [user])
            for event in button_events(payload, workspace, names.users.get(user, "")):
                await deliver_until_accepted(self._receive, event, self._clock.sleep)

        self._queues.put(workspace.chat_id(channel), take)

    def _enqueue(self, workspace: SlackWorkspace, message: SlackMessage, envelope: str) -> None:
        name = message_id(workspace.chat_id(message.channel), message.ts)
        if not self._position.is_done(name):
            self._position.mark_pending(name)
        self._queues.put(
            workspace.chat_id(message.channel),
            partial(self._handle, workspace, message, envelope, name),
        )

    async def _handle(
        self, workspace: SlackWorkspace, message: SlackMessage, envelope: str, name: str
    ) -> None:
        if not self._position.is_done(name):
            event = await self._make_event(workspace, message)
            if event is not None:
                await deliver_until_accepted(self._receive, event, self._clock.sleep)
            self._position.mark_done(name)
        await self.socket.acknowledge(envelope)

    async def _make_event(
        self, workspace: SlackWorkspace, message: SlackMessage
    ) -> MessageEvent | None:
        """Return the event; None if the message is not for us."""
        chat_id = workspace.chat_id(message.channel)
        await workspace.look_up_enterprise(message.user, message.user_team)
        in_talk = bool(message.thread) and self._position.has_thread(
            message_id(chat_id, message.thread)
        )
        make = partial(
            make_event, message, workspace, in_talk=in_talk, in_threads=self._options.threads
        )
        event = make()
        says = event.text.strip() or event.media
        if not says or not is_for_us(event, self._rules):
            return None
        event = make(await workspace.names(message.text, [message.user], message.channel))
        if message.thread and not in_talk:  # the topic was set before we took part
            root = await self._fetch_thread_root(workspace, message)
            if root is not None:
                names = await workspace.names(root.text)
                event = msgspec.structs.replace(
                    event,
                    reply_to_id=message_id(chat_id, root.ts),
                    reply_to_text=message_text(root, names)[:MAX_QUOTE],
                )
        return event

    async def _fetch_thread_root(
        self, workspace: SlackWorkspace, message: SlackMessage
    ) -> SlackMessage | None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                answer = await workspace.client.conversations_replies(
                    channel=message.channel, ts=message.thread, limit=1
                )
            return parse_message(answer["messages"][0])
        except (*CALL_ERRORS, msgspec.ValidationError, LookupError) as error:
            logger.debug("the beginning of a thread is not known: %s", type(error).__name__)
            return None

    async def _fetch_missed(self) -> list[_Waiting]:
        since = timestamp_at(SCALE.time_of(self._position.missed_since(self._now())))
        return [
            (workspace, message, "")
            for workspace in self._workspaces
            for message in await fetch_missed(workspace, self._position, since)
        ]

    async def _catch_up_after_limit(self) -> None:
        """Fetch the messages that Slack dropped, once its limit is over."""
        self._position.start(self._now())
        await self._clock.sleep(LIMIT_SECONDS)
        self._on_connect()

    def _release(self, missed: Sequence[_Waiting], held: Sequence[_Waiting]) -> None:
        for workspace, message, _ in missed:
            chat_id = workspace.chat_id(message.channel)
            if message.is_user_message and not workspace.is_ours(message.user, message.bot_id):
                self.record_message(chat_id, message.ts, others=True)
                if not self._position.is_known(message_id(chat_id, message.ts)):
                    self._enqueue(workspace, message, "")
        for waiting in held:
            self._enqueue(*waiting)

    def _workspace(self, teams: Sequence[object]) -> SlackWorkspace | None:
        """Return the workspace of a team, or the only one."""
        for workspace in self._workspaces:
            if workspace.team in teams:
                return workspace
        return self._workspaces[0] if len(self._workspaces) == 1 else None

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def download_file(
    workspace: SlackWorkspace,
    file: str,
    media: Media,
    limit: int,
    session: aiohttp.ClientSession,
    cache: MediaCache,
) -> Media:
    """Download a file to the cache. Raises `AdapterError`."""
    try:
        data = (await retry_rate_limited(workspace.client.files_info, file=file))["file"]
        if int(data.get("size") or 0) > limit:
            raise MediaTooLarge(media.name or "the file", limit)
        url = str(data.get("url_private_download") or data.get("url_private") or "")
        if not _is_slack_url(url, workspace.client.base_url):
            raise AdapterError("the file is not on Slack")
        headers = {"Authorization": f"Bearer {workspace.client.token}"}
        async with session.get(
            url,
            headers=headers,
            allow_redirects=False,
            timeout=DOWNLOAD_TIMEOUT,
            proxy=workspace.client.proxy,
        ) as response:
            if response.status != 200:  # without access Slack redirects to the sign-in page
                raise AdapterError(
                    f"Slack answered {response.status} for the file",
                    hint="The app needs the scope files:read.",
                )
            return await cache.save(response.content.iter_chunked(CHUNK), media, limit)
    except CALL_ERRORS as error:
        what = error_code(error) or type(error).__name__
        raise AdapterError(f"the file could not be downloaded from Slack: {what}") from error


def _text_parts(message: SlackMessage, names: SlackNames, me: str) -> Iterator[str]:
    yield readable_text(message.text, names, me)
    for attachment in message.attachments:
        if attachment.is_share:
            by = f" from {attachment.author_name}" if attachment.author_name else ""
            yield f"[forwarded{by}] {readable_text(attachment.text or attachment.fallback, names)}"
        elif message.is_bot:  # attachments of users are only previews of their links
            words = attachment.text or attachment.fallback
            yield "\n".join(filter(None, (attachment.title, readable_text(words, names))))
    for file in message.files:
        if file.is_external:
            yield f"[file: {file.title or file.name}] {file.url_private}"


def _media(message: SlackMessage, workspace: SlackWorkspace) -> Iterator[Media]:
    for file in message.files:
        if file.is_external or file.mode in HIDDEN_FILE_MODES:
            continue
        kind = "voice" if file.subtype == "slack_audio" else media_kind(file.mimetype, file.name)
        ref = workspace.chat_id(file.id)
        yield Media(kind, file.name or file.title, file.mimetype, file.size, ref=ref)


def _drop_nulls(value: Any) -> Any:
    """Remove null values: Slack omits fields or sets them to null at random."""
    if isinstance(value, dict):
        return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_drop_nulls(each) for each in value if each is not None]
    return value


async def _fetch_channel(
    workspace: SlackWorkspace, seen: ReadPosition[str], conversation: Json, since: str
) -> list[SlackMessage]:
    channel, client = str(conversation["id"]), workspace.client
    kind = "im" if conversation.get("is_im") else "channel"
    try:
        found = {
            each["ts"]: each
            for each in await fetch_after(
                client.conversations_history, since, MAX_MESSAGES, channel=channel
            )
        }
        fresh = [ts for ts, each in found.items() if each.get("latest_reply")]
        known = _known_threads(workspace.chat_id(channel), seen)
        for thread in dict.fromkeys([*known, *fresh[:MAX_THREADS]]):
            replies = await _fetch_replies(workspace, channel, thread, since)
            found |= {each["ts"]: each for each in replies}
    except SlackApiError as error:
        if error_code(error) not in UNREADABLE_CHANNEL_ERRORS:
            raise
        logger.debug("a channel of Slack cannot be read: %s", error_code(error))
        return []
    if len(found) >= MAX_MESSAGES:
        logger.warning("a channel of Slack has more than %d new messages", MAX_MESSAGES)
    return list(
        _parse_all({**each, "channel": channel, "channel_type": kind} for each in found.values())
    )


def _known_threads(chat_id: str, seen: ReadPosition[str]) -> list[str]:
    """Return the most recently used threads of a chat."""
    names = [name for name in seen.threads if name.rpartition(":")[0] == chat_id]
    return [timestamp_of(name) for name in names[-MAX_THREADS:]]


def _parse_all(found: Iterable[Json]) -> Iterator[SlackMessage]:
    for each in found:
        try:
            yield parse_message(each)
        except msgspec.ValidationError as error:
            logger.error("a message of Slack cannot be read: %s", error)


async def _fetch_replies(
    workspace: SlackWorkspace, channel: str, thread: str, since: str
) -> list[Json]:
    """Return the replies, without the first message of the thread, which Slack always includes."""
    try:
        found = await fetch_after(
            workspace.client.conversations_replies, since, MAX_MESSAGES, channel=channel, ts=thread
        )
    except SlackApiError as error:
        if error_code(error) not in UNREADABLE_CHANNEL_ERRORS:
            raise
        return []  # the thread was deleted
    return [each for each in found if micros(str(each["ts"])) > micros(since)]


def _is_slack_url(url: str, base_url: str) -> bool:
    """True for addresses of Slack: our token is sent nowhere else."""
    there, api = urlsplit(url), urlsplit(base_url)
    if (there.scheme, there.netloc) == (api.scheme, api.netloc):
        return True
    return there.scheme == "https" and (there.hostname or "").endswith(SLACK_HOSTS)

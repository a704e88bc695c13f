"""What comes from Slack, on its way to the gateway. A message is acknowledged only when it is kept
or is not for us."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from slack_sdk.socket_mode.request import SocketModeRequest

from hermes.core.ports import Clock
from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive
from hermes.gateway.platforms.kit.keeping import remember
from hermes.gateway.platforms.kit.lanes import Lanes
from hermes.gateway.platforms.kit.mentions import is_for_us, rules_from
from hermes.gateway.platforms.kit.offering import offer
from hermes.gateway.platforms.kit.seen import Seen
from hermes.gateway.platforms.kit.tasks import Tasks, ended
from hermes.gateway.platforms.slack import interactions, reading
from hermes.gateway.platforms.slack.failures import TROUBLE
from hermes.gateway.platforms.slack.ids import SCALE, message_id, micros, ts_at
from hermes.gateway.platforms.slack.missed import missed
from hermes.gateway.platforms.slack.options import Options
from hermes.gateway.platforms.slack.reading import Said
from hermes.gateway.platforms.slack.socket import Socket
from hermes.gateway.platforms.slack.workspace import LOOKING_UP, Workspace

logger = logging.getLogger(__name__)

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
        seen: Seen[str],
        receive: Receive,
        clock: Clock,
    ) -> None:
        self._workspaces, self._options, self._seen = workspaces, options, seen
        self._receive, self._clock = receive, clock
        self._rules = rules_from(options.settings)
        self._lanes = Lanes("Slack")
        self._tasks = Tasks()
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
        await ended(self._catching_up)
        await self._tasks.close()
        await self._lanes.close()
        await self.socket.close()

    def saw(self, chat_id: str, ts: str, *, others: bool = False) -> None:
        """A message is there."""
        for known in (self.newest, self.spoken) if others else (self.newest,):
            remember(known, chat_id, max(known.get(chat_id, ""), ts, key=micros), MOST_CHATS)

    # from the connection

    def _began(self) -> None:
        if not self._seen.begin(self._now()):
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
        message = reading.said(event)
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
        command = interactions.command_of(payload)
        if workspace is None:
            return

        async def take() -> None:
            event = await interactions.event_of_command(command, workspace, self._now())
            if event is not None and is_for_us(event, self._rules):
                await offer(self._receive, event, self._clock.sleep)
            await self.socket.acknowledge(envelope)

        self._lanes.put(workspace.chat_id(command.channel_id), take)

    def _pressed(self, payload: Mapping[str, Any]) -> None:
        """Acknowledged at once: whoever presses a button sees that it was."""
        team = payload.get("team") or {}
        workspace = self._workspace([team.get("id")])
        if workspace is None or payload.get("type") != "block_actions":
            return
        user, team = interactions.user_of(payload)
        channel = interactions.channel_of(payload)

        async def take() -> None:
            await workspace.meet(user, team)
            names = await workspace.names("", [user])
            for event in interactions.presses_of(payload, workspace):
                named = interactions.named(event, names)
                await offer(self._receive, named, self._clock.sleep)

        self._lanes.put(workspace.chat_id(channel), take)

    # messages

    def _put(self, workspace: Workspace, message: Said, envelope: str) -> None:
        name = message_id(workspace.chat_id(message.channel), message.ts)
        if not self._seen.is_done(name):
            self._seen.wait_for(name)
        self._lanes.put(
            workspace.chat_id(message.channel),
            partial(self._take, workspace, message, envelope, name),
        )

    async def _take(self, workspace: Workspace, message: Said, envelope: str, name: str) -> None:
        if not self._seen.is_done(name):
            event = await self._event(workspace, message)
            if event is not None:
                await offer(self._receive, event, self._clock.sleep)
            self._seen.done(name)
        await self.socket.acknowledge(envelope)

    async def _event(self, workspace: Workspace, message: Said) -> MessageEvent | None:
        """None when it is not for us."""
        chat_id = workspace.chat_id(message.channel)
        await workspace.meet(message.user, message.user_team)
        in_talk = bool(message.thread) and self._seen.talks_in(message_id(chat_id, message.thread))
        event = reading.event_of(
            message, workspace, in_talk=in_talk, in_threads=self._options.threads
        )
        says = event.text.strip() or event.media
        if not says or not is_for_us(event, self._rules):
            return None
        names = await workspace.names(message.text, [message.user], message.channel)
        event = reading.named(event, message, names, workspace.me)
        if message.thread and not in_talk:  # what it is about was said before we came
            root = await self._root(workspace, message)
            if root is not None:
                event = reading.answering(event, root, await workspace.names(root.text))
        return event

    async def _root(self, workspace: Workspace, message: Said) -> Said | None:
        try:
            async with asyncio.timeout(LOOKING_UP):
                answer = await workspace.client.conversations_replies(
                    channel=message.channel, ts=message.thread, limit=1
                )
            return reading.said(answer["messages"][0])
        except (*TROUBLE, msgspec.ValidationError, LookupError) as error:
            logger.debug("the beginning of a thread is not known: %s", type(error).__name__)
            return None

    # what was missed

    async def _catch_up(self) -> None:
        """What was missed comes before what comes now, as far as it is found soon enough."""
        pause = 1.0
        since = ts_at(SCALE.time(self._seen.missed_since(self._now())))
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
                self._seen.nothing_missed()
                return

    async def _after_limit(self) -> None:
        """What Slack leaves out for a minute is asked for when that is over."""
        self._seen.begin(self._now())
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

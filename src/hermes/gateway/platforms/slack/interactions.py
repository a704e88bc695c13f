"""Slash commands and buttons."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.slack.failures import TROUBLE
from hermes.gateway.platforms.slack.ids import message_id
from hermes.gateway.platforms.slack.markup import Names, readable
from hermes.gateway.platforms.slack.reading import is_private, source_of
from hermes.gateway.platforms.slack.workspace import LOOKING_UP, Workspace

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


def text_of(command: Command) -> str:
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
        text=text_of(command),
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


def named(event: MessageEvent, names: Names) -> MessageEvent:
    name = next(iter(names.users.values()), "")
    source = msgspec.structs.replace(event.source, user_name=name)
    return msgspec.structs.replace(event, source=source)

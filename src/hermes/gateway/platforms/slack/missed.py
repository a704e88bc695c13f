"""What was written while nobody was connected. Slack keeps it, but does not deliver it."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from slack_sdk.errors import SlackApiError

from hermes.gateway.platforms.kit.seen import Seen
from hermes.gateway.platforms.slack.failures import GONE, code_of
from hermes.gateway.platforms.slack.ids import micros, ts_of
from hermes.gateway.platforms.slack.reading import Said, said
from hermes.gateway.platforms.slack.workspace import PAGE, Call, Json, Workspace, pages

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Channels asked side by side."""
MOST = 500
"""Messages of one channel or thread."""
MOST_THREADS = 20
"""Threads of one channel that are looked into."""
CLOSED = GONE | {"missing_scope", "no_permission"}
"""Why a channel cannot be read; the others can."""


async def missed(workspace: Workspace, seen: Seen[str], since: str) -> list[Said]:
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
    workspace: Workspace, seen: Seen[str], conversation: Json, since: str
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


def _threads_of(chat_id: str, seen: Seen[str]) -> list[str]:
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

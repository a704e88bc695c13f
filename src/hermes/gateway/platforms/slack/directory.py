"""The chats that we are in."""

import asyncio

from hermes.gateway.platforms.base import ChatName
from hermes.gateway.platforms.slack.failures import TROUBLE, of_connecting
from hermes.gateway.platforms.slack.workspace import Json, Workspace

MOST_PEOPLE = 50
"""Private chats whose people are asked for; others have their ids."""
AT_ONCE = 4


async def names_of(workspace: Workspace) -> list[ChatName]:
    """Channels as `#name`, private chats by whom they are with."""
    try:
        found = await workspace.conversations()
    except TROUBLE as error:
        raise of_connecting(error) from error
    private = [each for each in found if each.get("is_im")]
    gate = asyncio.Semaphore(AT_ONCE)

    async def person(chat: Json) -> ChatName:
        user = str(chat.get("user") or "")
        async with gate:
            name = await workspace.user_name(user)
        return ChatName(workspace.chat_id(str(chat["id"])), name or user, "dm")

    people = list(await asyncio.gather(*map(person, private[:MOST_PEOPLE])))
    others = [
        ChatName(workspace.chat_id(str(each["id"])), str(each.get("user") or ""), "dm")
        for each in private[MOST_PEOPLE:]
    ]
    channels = [
        ChatName(workspace.chat_id(str(each["id"])), f"#{each.get('name') or each['id']}", "group")
        for each in found
        if not each.get("is_im")
    ]
    return [*channels, *people, *others]

"""A workspace that we are in: its client, who we are there, and what its ids stand for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes.gateway.platforms.kit.keeping import remember
from hermes.gateway.platforms.slack.failures import TROUBLE, retry_after
from hermes.gateway.platforms.slack.markup import Names, ids_in

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Call = Callable[..., Awaitable[Any]]

MOST_NAMES = 2000
LOOKING_UP = 1.5
"""Seconds that names may take: Slack wants to hear of a message within three."""
TRIES = 5
PAGE = 200
KINDS = "public_channel,private_channel,mpim,im"

library_log = logging.getLogger(f"{__name__}.library")
library_log.setLevel(logging.CRITICAL)
"""The library tells of messages, and of addresses that are secrets. What goes wrong we tell."""


def client_of(token: str, base_url: str, session: aiohttp.ClientSession) -> AsyncWebClient:
    """One attempt for each call: when to try again is for the gateway's outbox to decide."""
    return AsyncWebClient(
        token, base_url=base_url, session=session, logger=library_log, retry_handlers=[]
    )


class Channel(msgspec.Struct, frozen=True):
    name: str = ""
    is_member: bool = True


class Workspace:
    def __init__(self, client: AsyncWebClient, *, home: bool) -> None:
        self.client, self._home = client, home
        self.team = self.me = self.bot_id = self._enterprise = ""
        self._belongs: dict[str, str] = {}
        """Enterprises of users, as far as they were asked for."""
        self._users: dict[str, str] = {}
        self._channels: dict[str, Channel] = {}
        self._private: dict[str, str] = {}

    async def enter(self) -> None:
        """Find out who we are. Raises what a call may raise."""
        answer = await self.client.auth_test()
        self.team, self.me = str(answer["team_id"]), str(answer["user_id"])
        self.bot_id = str(answer.get("bot_id") or "")
        self._enterprise = str(answer.get("enterprise_id") or "")
        self._users[self.me] = str(answer.get("user") or "")

    @property
    def prefix(self) -> str:
        return "" if self._home else f"{self.team}/"

    def chat_id(self, channel: str) -> str:
        return f"{self.prefix}{channel}"

    def user_id(self, user: str, team: str = "") -> str:
        """Somebody of another workspace, in a channel that is shared with it, is never taken for
        one of ours who has the same id. In an enterprise ids are the same in all its workspaces
        (see `meet`)."""
        if not user:
            return ""
        ours = self._enterprise and self._belongs.get(user) == self._enterprise
        if team and team != self.team and not ours:
            return f"{team}/{user}"
        return f"{self.prefix}{user}"

    async def meet(self, user: str, team: str) -> None:
        """Find out whether somebody of another workspace belongs to our enterprise."""
        if self._enterprise and team and team != self.team and user not in self._belongs:
            self._users.pop(user, None)  # the name alone may be known already
            await self.names("", [user])

    def is_ours(self, user: str, bot_id: str) -> bool:
        return user == self.me or (bool(bot_id) and bot_id == self.bot_id)

    # names: it does no harm when one is not known

    async def names(self, text: str, users: Iterable[str] = (), channel: str = "") -> Names:
        """Of everybody and everything in a text, and of those given."""
        named, channels = ids_in(text)
        people, places = {*named, *users} - {""}, {*channels, channel} - {""}
        try:
            async with asyncio.timeout(LOOKING_UP):
                await asyncio.gather(*map(self._learn_user, people), *map(self.channel, places))
        except TimeoutError:
            logger.info("Slack does not say who is who")
        return Names(
            {user: self._users.get(user, "") for user in people},
            {place: self._channels[place].name for place in places if place in self._channels},
        )

    async def user_name(self, user: str) -> str:
        await self._learn_user(user)
        return self._users.get(user, "")

    async def channel(self, channel: str) -> Channel | None:
        """None when we cannot see it, or Slack cannot be asked."""
        if channel not in self._channels:
            try:
                async with asyncio.timeout(LOOKING_UP):
                    data = (await self.client.conversations_info(channel=channel))["channel"]
            except TROUBLE as error:
                logger.debug("a channel of Slack is not known: %s", type(error).__name__)
                return None
            member = bool(data.get("is_member") or data.get("is_im"))
            if not member:  # that may change, so it is asked for again
                return Channel(str(data.get("name") or ""), is_member=False)
            remember(self._channels, channel, Channel(str(data.get("name") or "")), MOST_NAMES)
        return self._channels[channel]

    async def private_chat(self, user: str) -> str:
        """Our own chat with somebody. Raises what a call may raise."""
        if user not in self._private:
            answer = await self.client.conversations_open(users=user)
            remember(self._private, user, str(answer["channel"]["id"]), MOST_NAMES)
        return self._private[user]

    async def conversations(self) -> list[Json]:
        """Where we are. Raises what a call may raise."""
        found: list[Json] = []
        async for page in pages(
            self.client.users_conversations, types=KINDS, exclude_archived=True, limit=PAGE
        ):
            found += page["channels"]
        return found

    async def _learn_user(self, user: str) -> None:
        if user in self._users or not user:
            return
        try:
            data = (await self.client.users_info(user=user))["user"]
        except TROUBLE as error:
            logger.debug("a user of Slack is not known: %s", type(error).__name__)
            return
        member = data.get("enterprise_user") or {}
        remember(self._belongs, user, str(member.get("enterprise_id") or ""), MOST_NAMES)
        profile = data.get("profile") or {}
        names = (profile.get("display_name"), profile.get("real_name"), data.get("name"))
        name = next((str(name) for name in names if name), "")
        remember(self._users, user, name, MOST_NAMES)


async def patiently(call: Call, **arguments: Any) -> Json:
    """Waits where Slack wants us to. Raises what a call may raise."""
    for attempt in range(TRIES):
        try:
            answer: Json = (await call(**arguments)).data
        except SlackApiError as error:
            seconds = retry_after(error)
            if seconds is None or attempt == TRIES - 1:
                raise
            await asyncio.sleep(seconds)
        else:
            return answer
    raise AssertionError("unreachable")


async def pages(call: Call, **arguments: Any) -> AsyncIterator[Json]:
    """All pages of a list, patiently."""
    while True:
        page = await patiently(call, **arguments)
        yield page
        arguments["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
        if not arguments["cursor"]:
            return

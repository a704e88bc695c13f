"""The whole of it, on a port of this machine."""

from typing import Any

from aiohttp import web

from tests.fakes.discord.rest import Rest
from tests.fakes.discord.sockets import INVALID, RECONNECT, Gateway
from tests.fakes.discord.world import DM, TEXT, THREAD, Json, World, public, shape
from tests.fakes.serving import Site

TOKEN = "MTIz.fake.discord-token-of-a-test"


class FakeDiscord(Site):
    def __init__(self) -> None:
        self.world = World()
        self.token = TOKEN
        self.gateway = Gateway(self.world, TOKEN)
        self.rest = Rest(self.world, self.gateway)

    async def start(self) -> None:
        routes = [*self.rest.routes(), web.get("/ws/", self.gateway.handle)]
        await self.serve(routes, middlewares=[self.rest.middleware])
        self.base_url = f"{self.url}/api/v10"
        self.gateway.url = f"ws://{self.host}/ws/"
        self.world.cdn = f"{self.url}/cdn"

    # the connection

    async def forget_sessions(self) -> None:
        """Refuse the next resume, so that the client starts a new session."""
        for session in self.gateway.sessions.values():
            session.wire = None
        self.gateway.sessions.clear()

    async def reconnect(self) -> None:
        await self.gateway.wires.send({"op": RECONNECT, "d": None})

    async def invalidate(self, *, resumable: bool = False) -> None:
        if not resumable:
            await self.forget_sessions()
        await self.gateway.wires.send({"op": INVALID, "d": resumable})

    # people

    async def says(
        self,
        channel: int,
        author: Json,
        text: str,
        *,
        roles: tuple[str, ...] = (),
        mentions: tuple[Json, ...] = (),
        **more: Any,
    ) -> Json:
        place = self.world.channels[channel]
        message = self.world.message(channel, author, text, mentions=[*mentions], **more)
        message["_roles"] = roles
        if place["type"] != DM:
            server = int(place["guild_id"])
            member = self.world.member(server, author, roles)
            self.rest.members.setdefault((server, int(author["id"])), member)
        await self.deliver(message)
        return message

    async def deliver(self, message: Json) -> None:
        place = self.world.channels[int(message["channel_id"])]
        data = public(message)
        if place["type"] != DM:
            server = int(place["guild_id"])
            data |= {"guild_id": str(server)}
            data["member"] = self.world.member(server, {}, message.get("_roles", ()))
        await self.gateway.dispatch("MESSAGE_CREATE", data)

    async def uses(self, channel: int, user: Json, data: Json, **more: Any) -> str:
        """Let a user use a command (type 2) or a button (type 3)."""
        place, number = self.world.channels[channel], str(self.world.id())
        interaction = shape("interaction", id=number, token=f"token-of-{number}", data=data)
        interaction |= {"application_id": str(self.world.application), "channel_id": str(channel)}
        named = {key: place[key] for key in ("id", "type", "name") if key in place}
        interaction |= {"channel": named, **more}
        if place["type"] == DM:
            interaction["channel"] |= {"recipients": [user]}
            interaction["user"] = user
        else:
            server = int(place["guild_id"])
            interaction["guild_id"] = str(server)
            interaction["member"] = self.world.member(server, user) | {"permissions": "0"}
        await self.gateway.dispatch("INTERACTION_CREATE", interaction)
        return number

    async def presses(self, message: Json, data: str, user: Json) -> str:
        return await self.uses(
            int(message["channel_id"]),
            user,
            {"custom_id": data, "component_type": 2},
            type=3,
            message=public(message, old=True),
        )

    async def opens_thread(self, parent: int, name: str, owner: Json) -> int:
        server = int(self.world.channels[parent]["guild_id"])
        more = {"owner_id": owner["id"], "parent_id": str(parent)}
        thread = self.world.channel(THREAD, name, server, **more)
        await self.gateway.dispatch("THREAD_CREATE", self.world.channels[thread])
        return thread

    def ours(self, channel: int) -> list[Json]:
        """Our messages of a channel."""
        me = self.world.me["id"]
        return [each for each in self.world.messages[channel] if each["author"]["id"] == me]

    def text_channel(self, server: int, name: str) -> int:
        return self.world.channel(TEXT, name, server)

    def private(self, user: Json) -> int:
        return self.world.channel(DM, recipients=[user])

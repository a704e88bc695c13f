"""The whole of it, on a port of this machine."""

from typing import Any

from aiohttp import web

from tests.fakes.serving import Site
from tests.fakes.slack.sockets import Sockets
from tests.fakes.slack.web_api import WebApi
from tests.fakes.slack.world import Json, World, public

TOKEN = "xoxb-1-fake-slack-bot-token"
APP_TOKEN = "xapp-1-fake-slack-app-token"


class FakeSlack(Site):
    def __init__(self) -> None:
        self.world = World()
        self.token, self.app_token = TOKEN, APP_TOKEN
        self.team = self.world.team("home", TOKEN)
        self.sockets = Sockets(self.world)
        self.api = WebApi(self.world, self.sockets, APP_TOKEN)

    async def start(self) -> None:
        await self.serve(
            [
                web.route("*", "/api/{method}", self.api.handle),
                web.get("/link/", self.sockets.handle),
                web.post("/upload/v1/{file}", self.api.uploading.receive),
                web.get("/files-pri/{file}/download/{name}", self.api.uploading.download),
            ]
        )
        self.base_url = f"{self.url}/api/"
        self.sockets.url = f"ws://{self.host}/link/"
        self.world.files_url = self.url

    async def stop(self) -> None:
        await self.sockets.close()
        await super().stop()

    # people

    async def says(self, channel: str, user: Json, text: str, **more: Any) -> Json:
        """Let a user write. A mention in a channel comes twice, as two kinds of event."""
        if user.get("is_bot"):
            more["bot_id"] = user["_bot_id"]
        if "files" in more:
            more.setdefault("subtype", "file_share")
        message = self.world.message(channel, user["id"], text, **more)
        await self.deliver(channel, message)
        return message

    async def deliver(self, channel: str, message: Json) -> None:
        team = self.world.channels[channel]["context_team_id"]
        mentioned = f"<@{self.world.teams[team].me}>" in message["text"]
        if mentioned and self.world.kind(channel) != "im":
            event = {**public(message), "type": "app_mention", "channel": channel}
            event["event_ts"] = message["ts"]
            await self.sockets.dispatch("events_api", self.api.callback(team, event))
        if self.world.channels[channel]["is_member"]:
            await self.api.announce(team, channel, message)

    async def event(self, event: Json, team: str = "") -> str:
        """Anything else that Slack tells of."""
        payload = self.api.callback(team or self.team.id, event)
        return await self.sockets.dispatch("events_api", payload)

    async def uses(self, channel: str, user: Json, text: str, command: str = "/hermes") -> str:
        """Let a user use a slash command; return its envelope."""
        payload = {
            "token": "verification", "team_id": user["team_id"], "channel_id": channel,
            "channel_name": "directmessage" if channel.startswith("D") else "channel",
            "user_id": user["id"], "user_name": user["name"], "command": command, "text": text,
            "api_app_id": self.world.app, "response_url": "https://hooks.slack.com/commands/1",
            "trigger_id": f"1.2.{self.world.number('x').lower()}",
        }  # fmt: skip
        return await self.sockets.dispatch("slash_commands", payload)

    async def presses(self, channel: str, message: Json, data: str, user: Json) -> str:
        """Let a user press a button; return its envelope."""
        buttons = [button for block in message["blocks"] for button in block.get("elements", ())]
        button = next(each for each in buttons if each["value"] == data)
        thread = {"thread_ts": message["thread_ts"]} if "thread_ts" in message else {}
        payload = {
            "type": "block_actions",
            "user": {"id": user["id"], "username": user["name"], "team_id": user["team_id"]},
            "api_app_id": self.world.app,
            "container": {
                "type": "message", "message_ts": message["ts"], "channel_id": channel, **thread,
            },
            "trigger_id": f"1.2.{self.world.number('x').lower()}",
            "team": {"id": self.world.channels[channel]["context_team_id"], "domain": "home"},
            "channel": {"id": channel, "name": "directmessage"},
            "message": public(message),
            "actions": [{**button, "block_id": "b", "action_ts": self.world.ts()}],
        }  # fmt: skip
        return await self.sockets.dispatch("interactive", payload)

    def ours(self, channel: str) -> list[Json]:
        """Our messages of a channel."""
        me = {team.me for team in self.world.teams.values()}
        return [message for message in self.world.messages[channel] if message["user"] in me]

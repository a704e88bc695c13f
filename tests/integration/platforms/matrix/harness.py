"""Matrix for the contract suite: our account, a few people, and a proxy in front of us."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from hermes.config.settings.platforms import Platform
from hermes.sdk.platforms import ChatType
from hermes.sdk.testing.platforms.harness import TROUBLES, File, Harness, Saying, Shown, Trouble
from hermes_plugins.platforms.matrix.adapter import MatrixAdapter
from hermes_plugins.platforms.matrix.manifest import MANIFEST, MatrixSettings
from tests.integration.platforms.matrix.homeserver import Homeserver
from tests.integration.platforms.matrix.people import Account, Json, path
from tests.integration.platforms.matrix.proxy import Proxy

SOMEBODY, LOBBY = "somebody", "lobby"
OPEN = MatrixSettings(require_mention=False, auto_thread=False)
MSGTYPES = {"image": "m.image", "video": "m.video", "document": "m.file"}


class MatrixHarness(Harness):
    manifest = MANIFEST
    features = frozenset({"groups", "replies", "bots", "keeps"})
    troubles = TROUBLES - {"format_refused"}
    connection = Platform()

    def __init__(
        self, folder: Path, homeserver: Homeserver, settings: MatrixSettings = OPEN
    ) -> None:
        super().__init__(folder)
        self.settings = settings
        self.address, self._known = homeserver.address, homeserver.people
        self.proxy = Proxy(self.address)
        self._people: dict[str, Account] = {}
        self._rooms: dict[tuple[str, bool], str] = {}
        self._owners: dict[str, Account] = {}
        self._in: set[tuple[str, str]] = set()
        self._threads: dict[str, str] = {}

    @classmethod
    async def start(
        cls, folder: Path, homeserver: Homeserver, *more: Any, **variables: str
    ) -> "MatrixHarness":
        harness = cls(folder, homeserver, *more)
        harness.session = aiohttp.ClientSession()
        await harness.proxy.open()
        harness.us = await Account.register(harness.session, harness.address, "hermes")
        await harness.person()
        harness.variables = {
            "MATRIX_HOMESERVER": harness.proxy.url,
            "MATRIX_ACCESS_TOKEN": harness.us.token,
            **variables,
        }
        harness.secrets = (harness.us.token,)
        return harness

    async def close(self) -> None:
        await self.proxy.close()
        await self.session.close()

    def adapter(self) -> MatrixAdapter:
        return MatrixAdapter(self.context())

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        return self._rooms[chat or (SOMEBODY if chat_type == "dm" else LOBBY), chat_type != "dm"]

    def user_id(self, user: str = "") -> str:
        return self._people[user or SOMEBODY].user_id

    async def person(self, name: str = "") -> Account:
        name = name or SOMEBODY
        if name not in self._people:
            if name not in self._known:
                made = await Account.register(self.session, self.address, name)
                self._known[name] = made.login
            self._people[name] = Account(self.session, self.address, self._known[name])
        return self._people[name]

    async def room(self, chat: str = "", *, group: bool = False, user: str = "") -> str:
        """One that we are invited to and the person is in."""
        if chat.startswith("!"):
            return chat
        name, person = chat or (LOBBY if group else SOMEBODY), await self.person(user)
        if (name, group) not in self._rooms:
            preset = "public_chat" if group else "trusted_private_chat"
            # Rooms of this version are made faster; those of test_encryption.py are the newest.
            body: Json = {"invite": [self.us.user_id], "preset": preset, "room_version": "10"}
            body |= {"name": name} if group else {"is_direct": True}
            made = await person.create(**body)
            self._rooms[name, group], self._owners[made] = made, person
            self._in.add((made, person.user_id))
        room_id = self._rooms[name, group]
        if (room_id, person.user_id) not in self._in:
            await person.join(room_id)
            self._in.add((room_id, person.user_id))
        return room_id

    async def says(self, text: str, **how: Any) -> str:
        said = Saying(**how)
        person = await self.person(said.user)
        room_id = await self.room(said.chat, group=said.chat_type != "dm", user=said.user)
        content: Json = {"msgtype": "m.notice" if said.bot else "m.text", "body": text}
        if said.mention:
            content |= mention_of(self.us.user_id, text)
        relation: Json = {}
        if said.thread:
            first = await self._thread(room_id, said.thread, person)
            relation = {"rel_type": "m.thread", "event_id": first}
        if said.reply_to:
            relation["m.in_reply_to"] = {"event_id": said.reply_to}
        if relation:
            content["m.relates_to"] = relation
        for file in said.files:
            content |= await self._file(person, file)
        return await person.send(room_id, content)

    async def again(self, message_id: str) -> None:
        self.proxy.again(message_id)

    async def shown(self, chat: str = "") -> list[Shown]:
        name = chat or SOMEBODY
        room_id = chat if chat.startswith("!") else self._rooms.get((name, False), "")
        if not room_id:
            return []
        events = await self._owners[room_id].events(room_id)
        return shown_of([event for event in events if event["sender"] == self.us.user_id])

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.proxy.troubles += [kind] * times

    async def drop(self) -> None:
        self.proxy.drop()
        await asyncio.sleep(0)

    async def gone(self) -> None:
        await self.proxy.stop()

    async def refuse_credentials(self) -> None:
        await self.us.call("POST", path("logout"), {})

    async def typing(self, chat: str = "") -> int:
        only = {"room": {"rooms": [chat], "timeline": {"limit": 1}}}
        answer = await self._owners[chat].call(
            "GET", path("sync"), params={"filter": json.dumps(only)}
        )
        events = answer["rooms"]["join"][chat]["ephemeral"]["events"]
        typing = [event for event in events if event["type"] == "m.typing"]
        return sum(self.us.user_id in event["content"]["user_ids"] for event in typing)

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        events = await self._owners[chat].events(chat)
        return [
            event["content"]["m.relates_to"]["key"]
            for event in events
            if event["type"] == "m.reaction"
            and event["sender"] == self.us.user_id
            and event["content"].get("m.relates_to", {}).get("event_id") == message_id
        ]

    async def _thread(self, room_id: str, thread: str, person: Account) -> str:
        if thread.startswith("$"):
            return thread
        if thread not in self._threads:
            # any event can be the first of a thread; this one is not a message
            self._threads[thread] = await person.send(room_id, {"about": thread}, "test.root")
        return self._threads[thread]

    async def _file(self, person: Account, file: File) -> Json:
        content: Json = {
            "msgtype": MSGTYPES.get(file.kind, "m.audio"),
            "filename": file.name,
            "url": await person.upload(file.data, file.mime or "application/octet-stream"),
            "info": {"mimetype": file.mime, "size": len(file.data)},
        }
        return content | ({"org.matrix.msc3245.voice": {}} if file.kind == "voice" else {})


def mention_of(user_id: str, text: str) -> Json:
    """As Element writes it."""
    name = user_id[1:].partition(":")[0]
    pill = f'<a href="https://matrix.to/#/{user_id}">{name}</a>'
    return {
        "body": f"{name}: {text}",
        "format": "org.matrix.custom.html",
        "formatted_body": f"{pill}: {text}",
        "m.mentions": {"user_ids": [user_id]},
    }


def shown_of(events: list[Json]) -> list[Shown]:
    """Messages with their last edits."""
    found: dict[str, Json] = {}
    edits: dict[str, int] = {}
    for event in events:
        content = event["content"]
        relation = content.get("m.relates_to", {})
        if relation.get("rel_type") == "m.replace":
            edits[relation["event_id"]] = edits.get(relation["event_id"], 0) + 1
            found[relation["event_id"]] |= content["m.new_content"]
        elif event["type"] == "m.room.message" and content:
            found[event["event_id"]] = dict(content)
    return [
        _shown(event_id, content, edits.get(event_id, 0)) for event_id, content in found.items()
    ]


def _shown(event_id: str, content: Json, edits: int) -> Shown:
    relation = content.get("m.relates_to", {})
    name = content.get("filename", "")
    thread = relation.get("event_id", "") if relation.get("rel_type") == "m.thread" else ""
    answers = not relation.get("is_falling_back")
    return Shown(
        id=event_id,
        text="" if content["body"] == name else content["body"],
        raw=content.get("formatted_body", content["body"]),
        thread=thread,
        reply_to=relation.get("m.in_reply_to", {}).get("event_id", "") if answers else "",
        media=(name,) if name else (),
        edits=edits,
    )

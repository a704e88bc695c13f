"""A local platform with people in it."""

import itertools
from pathlib import Path
from typing import Any

from hermes.gateway.platforms.local import LocalAdapter
from hermes.gateway.platforms.manifests import LOCAL
from hermes.sdk.platforms import ChatType, PlatformManifest
from hermes.sdk.testing.platforms.harness import TROUBLES, File, Harness, Saying, Shown, Trouble
from tests.fakes.local.server import ChatLog, LocalFile, LocalServer

TOKEN = "a-token-nobody-may-see"


class LocalHarness(Harness):
    manifest: PlatformManifest = LOCAL
    troubles = TROUBLES
    features = frozenset({"groups", "replies", "bots", "keeps"})
    secrets = (TOKEN,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = folder / "s"
        self.variables = {"LOCAL_SOCKET": str(self.socket), "LOCAL_TOKEN": TOKEN}
        self.platform = LocalServer(ChatLog(folder / "journal.jsonl"), token=TOKEN)
        self._files = itertools.count()

    def adapter(self) -> LocalAdapter:
        return LocalAdapter(self.context())

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        return chat or ("ann-at-home" if chat_type == "dm" else "the-garden")

    def user_id(self, user: str = "") -> str:
        return user or "ann-herself"

    async def says(self, text: str, **how: Any) -> str:
        said = Saying(**how)
        return self.platform.say(
            self.chat_id(said.chat, said.chat_type),
            self.user_id(said.user),
            f"@hermes {text}" if said.mention else text,
            chat_type=said.chat_type,
            thread=said.thread,
            reply_to=said.reply_to,
            files=tuple(self._attached(file) for file in said.files),
            bot=said.bot,
        ).id

    def _attached(self, file: File) -> LocalFile:
        path = self.folder / f"theirs-{next(self._files)}"
        path.write_bytes(file.data)
        return LocalFile(file.kind, str(path), file.name, file.mime)

    async def again(self, message_id: str) -> None:
        self.platform.redeliver(message_id)

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        self.platform.press(message_id, data, self.user_id(user))

    async def shown(self, chat: str = "") -> list[Shown]:
        return [
            Shown(
                id=shown.id,
                text=shown.text,
                raw=shown.text,
                thread=shown.thread,
                reply_to=shown.reply_to,
                media=shown.media,
                buttons=tuple(button.data for button in shown.buttons),
                edits=shown.edits,
            )
            for shown in self.platform.shown(self.chat_id(chat))
        ]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        self.platform.trouble(kind, times)

    async def drop(self) -> None:
        await self.platform.drop()

    async def gone(self) -> None:
        await self.platform.close()
        self.socket.unlink(missing_ok=True)

    async def refuse_credentials(self) -> None:
        self.platform.refusing = True

    async def typing(self, chat: str = "") -> int:
        return self.platform.log.typed.get(self.chat_id(chat), 0)

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        return self.platform.log.reactions.get(message_id, [])

    async def close(self) -> None:
        await self.gone()

"""BOOT.md: what the agent does at each start of the gateway. Its answer goes to the log and, unless
it begins with [SILENT], to the home channels."""

import logging
from contextlib import aclosing
from pathlib import Path

from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.core.errors import HermesError
from hermes.core.events import TurnFinished
from hermes.core.messages import User
from hermes.core.ports import Attachments
from hermes.gateway.house import House
from hermes.gateway.platforms.kit.contract import Target
from hermes.gateway.proxy import Proxy

log = logging.getLogger(__name__)

SILENT = "[SILENT]"
ASKED = (
    "The gateway has just started. Do what BOOT.md says; answer {silent} when nobody needs to"
    " know.\n\n{text}"
)


class Boot:
    def __init__(
        self,
        app: App,
        house: House,
        file: Path,
        homes: dict[str, Target],
        proxy: Proxy | None = None,
    ) -> None:
        self._app, self._house, self._file, self._homes = app, house, file, homes
        self._proxy = proxy

    async def run(self) -> None:
        """What goes wrong is logged: the gateway runs all the same."""
        try:
            text = self._file.read_text(encoding="utf-8").strip()
            if text:
                await self._answer(text)
        except (HermesError, OSError, UnicodeDecodeError) as error:
            log.error("BOOT.md: %s", error)

    async def _answer(self, text: str) -> None:
        folder = Path(self._app.loaded.settings.gateway.cwd).expanduser()
        request = SessionRequest(folder, source="cron", goes_on=False, skip_context_files=True)
        agent = await self._app.agent(self._proxy.request(request) if self._proxy else request)
        try:
            asked = User.say(ASKED.format(silent=SILENT, text=text))
            async with aclosing(agent.run(asked)) as events:
                async for event in events:
                    if isinstance(event, TurnFinished):
                        attachments = self._app.session(agent).attachments
                        await self._tell(event.text or event.error, attachments)
        finally:
            await self._app.leave(agent)

    async def _tell(self, answer: str, attachments: Attachments) -> None:
        log.info("BOOT.md: %s", answer)
        if answer.strip() and not answer.lstrip().startswith(SILENT):
            for target in self._homes.values():
                await self._house.say_now(target, answer, "notice", attachments=attachments)

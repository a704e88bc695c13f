"""Tasks beside a conversation (`/background`). A task is a message of its own, with a worker and an
agent of its own: it goes on after a crash and is answered once, as any message is."""

from collections.abc import Iterable

from hermes.app.background import brief
from hermes.core.events import TurnFinished
from hermes.gateway.house import House
from hermes.gateway.messages import event_of
from hermes.gateway.platforms.kit.contract import MessageEvent
from hermes.gateway.session_keys import errand_name, errand_of
from hermes.gateway.view import TurnView
from hermes.gateway.worker import Worker
from hermes.store.records import ChatLease, InboxRow, OutboxItem


class Errand(Worker):
    """Nobody is asked in it: what would need consent is decided as `approvals.headless` says."""

    def __init__(self, house: House, key: str) -> None:
        super().__init__(house, key)
        self._goal = ""
        self._began = house.clock.monotonic()
        self._stopped = False

    @property
    def name(self) -> str:
        return errand_name(self.key)

    @property
    def line(self) -> str:
        """For a list of what runs."""
        seconds = self._house.clock.monotonic() - self._began
        return f"`{self.name}` {brief(self._goal)} ({seconds:.0f} s)"

    def stop(self) -> None:
        if not self.turning.stop("stop"):
            self._stopped = True  # it has not come so far

    async def _batch(self, rows: list[InboxRow], right: ChatLease) -> None:
        await super()._batch(rows, right)
        if not await self._waiting():  # else it goes on after the next start
            await self._house.conversations.close(self.key)
            await self._house.store.chats.delete(right)

    async def _dealt_with(
        self, rows: list[InboxRow], events: list[MessageEvent], right: ChatLease
    ) -> None:
        self._goal = events[0].text
        if self._stopped:
            await self._done(rows, (), right)
        else:
            await self._take_turn(rows, events, right)

    async def _answer(
        self, row: InboxRow, text: str, view: TurnView, _finish: TurnFinished | None = None
    ) -> tuple[OutboxItem, ...]:
        event, agent = event_of(row), self._house.conversations.get(self.key)
        session = f" (session `{agent.session_id}`)" if agent else ""
        report = f"**`{self.name}`** {brief(event.text)}{session}\n\n{text}"
        report, files = await view.attach(report)
        return (
            *self._house.at_once(row, event, report, "background", files),
            *self._house.for_home(row, event, report, files),
        )


def errands_of(key: str, workers: Iterable[Worker]) -> list[Errand]:
    """The tasks of a chat that are not over."""
    found = (each for each in workers if isinstance(each, Errand) and each.working)
    return [each for each in found if errand_of(each.key) == key]

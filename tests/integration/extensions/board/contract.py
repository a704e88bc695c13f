"""The board passes what every platform has to pass."""

import pytest
from board import BOARDS, MANIFEST, TOKEN, Board, BoardAdapter, event

from hermes.sdk.testing.platforms.harness import Harness, Shown
from hermes.sdk.testing.platforms.suite import (
    AdapterContract,
    DeliveryCheckContract,
    KeepsContract,
    NoThreadsContract,
)


class BoardHarness(Harness):
    manifest = MANIFEST
    troubles = frozenset({"server_error", "cut_before", "cut_after"})
    features = frozenset({"keeps"})
    secrets = (TOKEN,)

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.board = BOARDS["garden"] = Board()
        self.variables |= {"BOARD_NAME": "garden", "BOARD_TOKEN": TOKEN}
        self.said = []

    def adapter(self):
        return BoardAdapter(self.context())

    def chat_id(self, chat="", chat_type="dm"):
        return chat or "ann"

    user_id = chat_id

    async def says(self, text, *, chat="", user="", **_options):
        self.said.append(event(len(self.said), chat or "ann", user or "ann", text))
        self.board.unread.append(self.said[-1])
        return self.said[-1].message_id

    async def again(self, message_id):
        self.board.unread += [each for each in self.said if each.message_id == message_id]

    async def shown(self, chat=""):
        posts = self.board.shown.items()
        return [Shown(key, m.text, m.text) for key, (place, m) in posts if place == (chat or "ann")]

    def trouble(self, kind, times=1):
        self.board.faults += [kind] * times

    async def drop(self):
        """There is no connection that could break."""

    async def gone(self):
        self.board.is_up = False

    async def refuse_credentials(self):
        self.board.token = "another"


class TestBoard(DeliveryCheckContract, KeepsContract, NoThreadsContract, AdapterContract):
    @pytest.fixture
    def harness(self, tmp_path):
        return BoardHarness(tmp_path)

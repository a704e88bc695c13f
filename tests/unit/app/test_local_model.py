"""The embedded model: a larger one is offered once, where the machine has room for it."""

import ssl
from pathlib import Path

import httpx2
import psutil
import pytest

from hermes.app.providers import LocalModel
from hermes.config.home import Home
from hermes.config.settings import LocalModelSettings
from hermes.core.events import TurnFinished
from hermes.core.model import Usage
from hermes.providers.endpoints import Target
from hermes.providers.local.weights import LARGER_MEMORY, find_weights, larger_weights
from hermes.providers.transport import make_model_client

GIGABYTE = 10**9


class Recorded:
    def __init__(self) -> None:
        self.said: list[str] = []

    def report(self, label: str, done: int, total: int) -> None:
        raise AssertionError(label)

    def say(self, text: str) -> None:
        self.said.append(text)


def turn_end(exit_code: int = 0) -> TurnFinished:
    return TurnFinished("s", "answered", "hello", Usage(), 1, exit_code=exit_code)


@pytest.mark.parametrize(
    ("name", "memory", "offered"),
    [
        ("0.5b", 8 * GIGABYTE, "1.5b"),
        ("0.5b", 3 * GIGABYTE, ""),
        ("1.5b", 64 * GIGABYTE, ""),
    ],
)
def test_a_larger_model_needs_memory(tmp_path: Path, name: str, memory: int, offered: str):
    weights = find_weights(name)
    assert weights is not None
    larger = larger_weights(weights, tmp_path, memory)
    assert (larger.id if larger else "") == offered


@pytest.mark.skipif(
    psutil.virtual_memory().available < LARGER_MEMORY, reason="needs 4 GB of free memory"
)
async def test_the_larger_model_is_offered_once_after_a_successful_turn(hermes_home: Path):
    home, said = Home(hermes_home), Recorded()
    home.models.mkdir(parents=True)
    target = Target(provider="local", model="0.5b", base_url="")
    async with httpx2.AsyncClient() as client:
        for _start in range(2):
            settings = LocalModelSettings()
            models = make_model_client(ssl.create_default_context())
            local = LocalModel(home, settings, models, client, said)
            await local.offer_larger(target, turn_end(exit_code=5))
            await local.offer_larger(target, turn_end())
            await local.offer_larger(target, turn_end())
    offer = "This machine can run a larger model (1,117 MB): hermes model set local:1.5b"
    assert said.said == [offer]

"""The client of the API of Atropos, against a server with that API."""

import asyncio
from typing import Any

import pytest

from hermes.envs.atropos import AtroposClient, AtroposError
from hermes.util.concurrency import SystemClock
from tests.unit.envs.atropos_server import AtroposServer


class StepClock(SystemClock):
    """Does not sleep; each wait runs the next action of the test."""

    def __init__(self, *actions: Any) -> None:
        self.slept: list[float] = []
        self._actions = list(actions)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._actions:
            self._actions.pop(0)()
        await asyncio.sleep(0)


def group(*scores: float) -> dict[str, Any]:
    size = len(scores)
    return {
        "tokens": [[1, 2, 3]] * size,
        "masks": [[-100, -100, 3]] * size,
        "scores": list(scores),
        "inference_logprobs": [[1.0, 1.0, -0.5]] * size,
        "metadata": [{"task": "a"}] * size,
    }


async def register(api: AtroposClient) -> None:
    await api.register("words", group_size=2, max_token_length=500, weight=0.5)


async def test_groups_reach_the_trainer_and_the_environment_disconnects() -> None:
    with AtroposServer() as server:
        server.register(batch_size=4)
        async with AtroposClient(server.url) as api:
            await register(api)
            await api.send([group(0, 1)])
            await api.send([group(1, 0), group(0, 0)])
            assert (await api.status()).queue_size == 3
        assert server.environments == [
            {
                "desired_name": "words",
                "group_size": 2,
                "max_token_length": 500,
                "weight": 0.5,
                "min_batch_allocation": None,
            }
        ]
        first, second = server.batch()
        assert (first.scores, second.scores) == ([0, 1], [1, 0])
        assert first.masks[0] == [-100, -100, 3]
        assert first.inference_logprobs == [[1.0, 1.0, -0.5]] * 2
        assert first.env_id == 0
        assert server.disconnected == [0]
        assert server.paths()[-4:-1] == ["/scored_data", "/scored_data_list", "/status-env"]


async def test_registration_waits_for_the_trainer() -> None:
    notices: list[str] = []
    with AtroposServer() as server:
        clock = StepClock(lambda: None, lambda: server.register(batch_size=4, num_steps=7))
        async with AtroposClient(server.url, clock, notices.append) as api:
            await register(api)
            assert (api.registration.env_id, api.registration.num_steps) == (0, 7)
            assert api.info.batch_size == 4
    assert len(clock.slept) == 2
    assert notices == [f"{server.url}: wait for trainer to start"], "it is said once"


async def test_full_queue_has_no_room_until_the_trainer_takes_a_batch() -> None:
    with AtroposServer() as server:
        server.register(batch_size=4)
        async with AtroposClient(server.url) as api:
            await register(api)
            free = []
            for step in (lambda: None, lambda: None, server.batch):
                step()
                free.append(api.free_groups(await api.status(), group_size=2, max_batches=2))
                if len(free) == 1:
                    await api.send([group(0, 1)] * 5)
    assert free == [4, 0, 1]


async def test_errors_of_the_server_are_tried_again_with_growing_pauses() -> None:
    notices: list[str] = []
    with AtroposServer(faults=3) as server:
        server.register(batch_size=4)
        clock = StepClock()
        async with AtroposClient(server.url, clock, notices.append) as api:
            await register(api)
    assert clock.slept == [1, 2, 4]
    assert "status 503" in notices[0]
    assert "attempt 2 of 6" in notices[0]


async def test_refused_group_is_an_error_without_another_attempt() -> None:
    with AtroposServer() as server:
        server.register(batch_size=4)
        clock = StepClock()
        async with AtroposClient(server.url, clock) as api:
            await register(api)
            with pytest.raises(AtroposError, match="status 422"):
                await api.send([{**group(0, 1), "scores": ["good", "bad"]}])
    assert clock.slept == []
    assert server.groups == []


async def test_api_that_is_not_there_is_named_with_the_command_that_starts_it() -> None:
    with AtroposServer() as server:
        url = server.url
    with pytest.raises(AtroposError, match="connection refused") as caught:
        async with AtroposClient(url, StepClock()) as api:
            await register(api)
    assert "run-api" in caught.value.hint

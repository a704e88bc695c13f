"""A few short storms; `python -m bench.gateway_storm --runs 100` is the long way."""

import pytest

from bench.gateway_storm import Storm, run

STORMS = {
    "plain": Storm(11, messages=2, kills=2),
    "growing text and tools": Storm(12, messages=2, kills=2, streaming=True, tools=True),
    "commands": Storm(14, messages=2, kills=2, commands=True),
    "bursts": Storm(13, messages=3, kills=2, burst=True, streaming=True),
}


@pytest.mark.parametrize("name", STORMS)
async def test_killed_gateways_answer_every_message_once_and_in_order(name):
    outcome = await run(STORMS[name])
    assert outcome.problems == ()
    assert outcome.kills == STORMS[name].kills

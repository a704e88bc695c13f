"""A few short storms; `python -m bench.gateway_storm --runs 100` is the long way, and that of
several gateways is `python -m bench.gateway_storm --shared --kills 60`."""

from math import inf

import pytest

from bench.gateway_storm import Storm, alternate, run
from tests.postgres_server import shared_server

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


SHARED = {
    "two gateways that get all messages": Storm(21, kills=2, gateways=2, delivery="all"),
    "three gateways with one receiver each": Storm(
        22, kills=3, gateways=3, delivery="one", streaming=True, tools=True
    ),
}


@pytest.mark.parametrize("name", SHARED)
async def test_chats_of_killed_gateways_are_taken_over_by_another_machine(name):
    with shared_server().database() as url:
        outcome = await run(SHARED[name], url)
    assert outcome.problems == ()
    assert outcome.kills == SHARED[name].kills
    assert inf not in outcome.takeovers


async def test_two_api_servers_on_one_database_share_conversations_and_run_turns_in_order():
    with shared_server().database() as url:
        problems, _ = await alternate(url)
    assert problems == ()

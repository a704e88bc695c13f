"""Caps on money hold, and reaching one ends the turn cleanly."""

import json

import pytest

from hermes.core.events import TurnFinished
from hermes.core.messages import Text, ToolCall
from hermes.core.model import Usage
from hermes.core.testing import ModelServer, Step
from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from tests.integration.providers.conftest import at, started

REPLY = {
    "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 200},
}
PRICE = {"input": 1, "output": 10}
DEAR = Usage(input=20_000, output=1000)
"""Three cents at this price."""


def priced(server: ModelServer, **budget: float) -> dict:
    own = {"models": {"lab-model": {"price": PRICE, "max_output": 1000}}}
    return {"model": at(server), "providers": {"custom": own}, "budget": budget}


def dear(text: str) -> Step:
    return Step((Text(text),), usage=DEAR)


def tool_step() -> Step:
    return Step((ToolCall("c1", "search_files", '{"pattern":"x"}'),), usage=DEAR)


async def test_a_turn_stops_before_the_call_that_would_exceed_its_cap(home, ask):
    with ModelServer([tool_step(), tool_step()]) as server:
        config = home(**priced(server, turn_usd=0.063))
        events = await ask(config)
        assert len(server.calls) == 2
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.exit_reason, end.exit_code) == ("budget_spent", 8)
    assert "budget.turn_usd allows $0.063" in end.error
    assert end.cost_usd == pytest.approx(0.06)
    async with started(config) as app:
        info = await app.store.info(end.session_id)
        stored = await app.store.messages(end.session_id)
    assert info.end_reason == "budget_spent"
    # Every call has its result: nothing was cut off in the middle.
    roles = [message.role for message in stored]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


async def test_a_cap_of_a_turn_counts_anew_in_the_next(home, ask):
    with ModelServer([dear("one"), dear("two")]) as server:
        events = await ask(home(**priced(server, turn_usd=0.05)), "a", "b")
    assert [e.exit_reason for e in events if isinstance(e, TurnFinished)] == ["answered"] * 2


@pytest.mark.parametrize("cap", ["turn_usd", "session_usd"])
@pytest.mark.parametrize("more", ["", ',"background":true'])
async def test_caps_on_money_hold_for_subagents_too(home, ask, cap, more):
    task = ToolCall("c1", "delegate_task", f'{{"goal":"look around"{more}}}')
    with ModelServer([Step((task,), usage=DEAR)]) as server:
        end = (await ask(home(**priced(server, **{cap: 0.031}))))[-1]
        assert len(server.calls) == 1
    assert end.exit_reason == "budget_spent"


@pytest.mark.parametrize("cap", ["session_usd", "day_usd"])
async def test_caps_of_a_session_and_of_a_day_hold_over_restarts(cap, home, ask):
    with ModelServer([dear("one")]) as server:
        config = home(**priced(server, **{cap: 0.032}))
        first = (await ask(config))[-1]
        again = (await ask(config, resume=first.session_id))[-1]
        assert len(server.calls) == 1
    assert again.exit_reason == "budget_spent"
    assert f"budget.{cap}" in again.error


async def test_another_session_has_a_cap_of_its_own_but_the_same_day(home, ask):
    with ModelServer([dear("one"), dear("two")]) as server:
        config = home(**priced(server, session_usd=0.035))
        await ask(config)
        assert (await ask(config))[-1].exit_reason == "answered"


async def test_a_cap_with_an_unknown_price_refuses_and_says_how_to_give_it(home, ask):
    with ModelServer([]) as server:
        end = (await ask(home(model=at(server), budget={"turn_usd": 1})))[-1]
        assert server.calls == []
    assert "price of lab-model" in end.error
    assert "price" in end.hint


async def test_the_reply_is_kept_short_enough_for_what_is_left(home, ask):
    with ModelServer(["short"]) as server:
        own = {"models": {"lab-model": {"price": PRICE, "max_output": 100_000}}}
        await ask(home(model=at(server), providers={"custom": own}, budget={"turn_usd": 0.05}))
        assert 256 <= server.calls[0].body["max_tokens"] <= 5000


async def test_without_a_cap_nothing_is_estimated_or_limited(home, ask):
    with ModelServer(["fine"]) as server:
        await ask(home(model=at(server)))
        assert "max_tokens" not in server.calls[0].body


async def test_a_price_that_the_endpoint_lists_is_looked_up_when_a_cap_needs_it(home, ask):
    price = {"prompt": "0.000001", "completion": "0.000002"}
    rows = {"data": [{"id": "lab-model", "pricing": price}]}

    def respond(request: RecordedRequest) -> Outgoing:
        body = rows if request.method == "GET" else REPLY
        return Outgoing(200, {"Content-Type": "application/json"}, [json.dumps(body).encode()])

    server = LoopbackServer(respond)
    settings = {"provider": "custom", "base_url": f"http://127.0.0.1:{server.port}/v1"}
    config = home(model={**settings, "default": "lab-model"}, budget={"turn_usd": 1})
    end = (await ask(config))[-1]
    server.close()
    assert (end.text, end.cost_usd) == ("hi", pytest.approx(0.0014))

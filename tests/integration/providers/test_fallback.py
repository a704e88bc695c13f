"""When a model fails another one takes over, and a pool of keys is used up first."""

import pytest

from hermes.config.loader import load
from hermes.core.events import TurnFinished, TurnStarted
from hermes.core.messages import ToolCall
from hermes.core.model import FellBack
from hermes.core.testing import ModelServer, Refuse, Step
from hermes.ops.auth import CredentialService
from hermes.util.concurrency import SystemClock
from tests.integration.providers.conftest import at, started


def end_of(events) -> TurnFinished:
    assert isinstance(events[-1], TurnFinished)
    return events[-1]


def entry(server: ModelServer, model: str) -> dict[str, str]:
    return {"provider": "custom", "model": model, "base_url": f"{server.url}/v1", "api_key": "b"}


@pytest.mark.parametrize("kind", ["unauthorized", "model_not_found", "payment_required"])
async def test_a_refusal_goes_to_the_next_model_at_once(kind, home, ask):
    with ModelServer([Refuse(kind)]) as first, ModelServer(["from the other"]) as second:
        events = await ask(home(model=at(first), fallback_providers=[entry(second, "other")]))
        assert second.calls[0].body["model"] == "other"
    assert end_of(events).text == "from the other"
    assert [event.model for event in events if isinstance(event, FellBack)] == ["other"]


async def test_a_fallback_stays_for_the_turn_and_the_next_one_begins_with_the_primary(home, ask):
    call = ToolCall("c1", "search_files", '{"pattern":"x"}')
    first = ModelServer([Refuse("model_not_found"), "back again"])
    second = ModelServer([Step((call,)), "done"])
    with first, second:
        config = home(model=at(first), fallback_providers=[entry(second, "other")])
        events = await ask(config, "one", "two")
    texts = [event.text for event in events if isinstance(event, TurnFinished)]
    assert texts == ["done", "back again"]
    started_with = [event.model for event in events if isinstance(event, TurnStarted)]
    assert started_with == ["lab-model", "lab-model"]


async def test_cost_of_a_fallback_is_recorded_for_the_fallback(home, ask):
    with ModelServer([Refuse("model_not_found")]) as first, ModelServer(["hi"]) as second:
        config = home(model=at(first), fallback_providers=[entry(second, "other")])
        events = await ask(config)
        async with started(config) as app:
            lines = await app.store.usage(end_of(events).session_id)
    assert [(line.model, line.calls) for line in lines] == [("other", 1)]


async def test_first_error_counts_the_failed_fallbacks(home, ask):
    with (
        ModelServer([Refuse("unauthorized")]) as first,
        ModelServer([Refuse("model_not_found")]) as second,
    ):
        config = home(model=at(first), fallback_providers=[entry(second, "other")])
        end = end_of(await ask(config))
    assert "refused the key" in end.error
    assert "1 fallback failed too" in end.hint
    assert end.exit_code == 4


async def test_a_fallback_that_is_not_set_up_is_passed_over(home, ask):
    with ModelServer([Refuse("model_not_found")]) as first, ModelServer(["hi"]) as second:
        chain = [{"provider": "groq", "model": "m"}, entry(second, "other")]
        events = await ask(home(model=at(first), fallback_providers=chain))
    assert end_of(events).text == "hi"


async def test_a_content_refusal_is_not_shopped_around(home, ask):
    with ModelServer([Refuse("content_filter")]) as first, ModelServer([]) as second:
        config = home(model=at(first), fallback_providers=[entry(second, "other")])
        end = end_of(await ask(config))
        assert second.calls == []
    assert end.exit_reason == "failed"


async def test_a_used_up_key_makes_room_for_the_next_one_and_rests_over_restarts(home, ask):
    with ModelServer([Refuse("payment_required"), "with the other key", "still"]) as server:
        lab = {"name": "lab", "base_url": f"{server.url}/v1"}
        config = home(custom_providers=[lab], model={"provider": "lab", "default": "m"})
        desk = CredentialService(config, load(config), SystemClock())
        for key in ("key-one", "key-two"):
            desk.add(desk.endpoint("lab"), key, "")
        assert end_of(await ask(config)).text == "with the other key"
        assert end_of(await ask(config)).text == "still"
        sent = [call.headers["authorization"] for call in server.calls]
    assert sent == ["Bearer key-one", "Bearer key-two", "Bearer key-two"]

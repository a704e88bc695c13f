"""Auxiliary model calls: their model, budget and usage rows."""

import pytest

from hermes.core.errors import BudgetSpent, StreamStalled, UsageError
from hermes.core.messages import Text, User
from hermes.core.model import ModelRequest, Usage
from hermes.core.testing import ModelServer, Refuse, Stall, Step
from tests.integration.providers.conftest import at, started

TITLE = ModelRequest((User.say("name this conversation"),), stream=False)


async def new_session(app) -> str:
    await app.store.create("s", source="test", model="m", system_prompt="")
    return "s"


def task(server: ModelServer, **more) -> dict:
    return {"base_url": f"{server.url}/v1", "model": "small", "api_key": "k", **more}


async def test_a_task_has_its_own_model_and_its_own_row(home):
    with ModelServer([]) as main, ModelServer(["A title"]) as other:
        config = home(model=at(main), auxiliary={"title_generation": task(other)})
        async with started(config) as app:
            router = await app.auxiliary(await new_session(app))
            reply = await router.ask("title_generation", TITLE)
            (line,) = await app.store.usage("s")
    assert reply.message.text == "A title"
    assert (line.task, line.model, line.calls) == ("title_generation", "small", 1)


async def test_main_asks_the_model_of_the_conversation(home):
    with ModelServer(["yes"]) as server:
        config = home(model=at(server), auxiliary={"approval": {"provider": "main"}})
        async with started(config) as app:
            router = await app.auxiliary(await new_session(app))
            await router.ask("approval", TITLE)
        assert server.calls[0].body["model"] == "lab-model"


async def test_auto_falls_back_to_the_main_model(home):
    with ModelServer(["yes"]) as server:
        async with started(home(model=at(server))) as app:
            router = await app.auxiliary(await new_session(app))
            assert [target.model for target in router.targets("compression")] == ["lab-model"]
            await router.ask("compression", TITLE)


async def test_every_task_of_the_settings_can_be_asked(home):
    with ModelServer([]) as server:
        config = home(
            model=at(server, context_length=1000),
            providers={"custom": {"models": {"lab-model": {"images": True}}}},
        )
        async with started(config) as app:
            router = await app.auxiliary(await new_session(app))
            for name in type(app.loaded.settings.auxiliary).__struct_fields__:
                assert router.targets(name)
            with pytest.raises(UsageError, match="no auxiliary task 'frobnicate'"):
                router.targets("frobnicate")


async def test_a_task_that_takes_too_long_is_given_up(home):
    with ModelServer(lambda _request: Step((Text("late"),), faults=(Stall(0, 30),))) as server:
        slow = task(server, timeout=0.2)
        async with started(home(model=at(server), auxiliary={"mcp": slow})) as app:
            router = await app.auxiliary(await new_session(app))
            with pytest.raises(StreamStalled):
                await router.ask("mcp", TITLE)


async def test_tasks_and_turns_share_the_caps(home):
    cents = Usage(input=30_000)
    with ModelServer([Step((Text("t"),), usage=cents)]) as server:
        price = {"price": {"input": 1, "output": 1}, "max_output": 100}
        config = home(
            model=at(server),
            providers={"custom": {"models": {"small": price}}},
            auxiliary={"mcp": task(server)},
            budget={"session_usd": 0.0301},
        )
        async with started(config) as app:
            router = await app.auxiliary(await new_session(app))
            await router.ask("mcp", TITLE)
            with pytest.raises(BudgetSpent, match=r"budget\.session_usd"):
                await router.ask("mcp", TITLE)


async def test_failing_task_raises_the_error_of_the_endpoint(home):
    with ModelServer([Refuse("unauthorized")]) as server:
        async with started(home(model=at(server), auxiliary={"mcp": task(server)})) as app:
            router = await app.auxiliary(await new_session(app))
            with pytest.raises(Exception, match="refused the key"):
                await router.ask("mcp", TITLE)

"""News from beside the conversation."""

from hermes.agent.turn import Notices
from hermes.core.events import Notice
from hermes.core.messages import User
from tests.unit.agent.conftest import events_of
from tests.unit.agent.test_turns import call, tool_that


async def test_news_reaches_the_model_after_its_tool_calls(script, make_agent, log):
    notices = Notices()
    model = script([call("look"), "heard"])
    agent = make_agent(model, tool_that("seen"), notices=notices)
    notices.add("[background process p1: finished]")
    notices.add("[background process p2: finished]")
    events = await events_of(agent)
    news = User.say("[background process p1: finished]\n\n[background process p2: finished]")
    assert model.requests[1].messages[-1] == news
    assert news in await log.messages("s1")
    assert Notice(news.text) in events


async def test_news_that_comes_too_late_waits(script, make_agent):
    notices = Notices()
    agent = make_agent(script(["done"]), notices=notices)
    notices.add("late")
    await events_of(agent)
    await notices.wait()
    assert notices.take() == User.say("late")
    assert notices.take() is None

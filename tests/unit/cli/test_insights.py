import asyncio
import json
from datetime import UTC

import pytest

from hermes.app.sessions import opened_store
from hermes.cli.commands.status import ASCII, ChartBar, Charts, page
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.core.messages import ToolResult, User
from hermes.core.model import ModelCall, Usage
from hermes.ops.insights import insights_of
from hermes.store.session_store import open_store
from hermes.tui.text import Paint, width
from hermes.util.concurrency import SystemClock
from tests.unit.cli.terminal import call


@pytest.fixture
def home(hermes_home):
    return Home(hermes_home)


def hermes_insights(home, *arguments):
    return call("insights", home, *arguments)[:2]


@pytest.fixture
def used(home):
    """A home in which something was said just now."""

    async def fill():
        store = open_store("", home.state_db)
        await store.create("s", source="cli", model="m", system_prompt="")
        await store.append("s", User.say("hi"))
        for name in (
            "terminal",
            "terminal",
            "网络搜索工具网络搜索工具网络搜索工具",
            "evil\x1b[31mtool\x07",
        ):
            await store.append("s", ToolResult("1", name, "x"))
        usage = Usage(input=1000, output=500, cache_read=3000)
        long = "maker/a-model-with-a-very-long-name-indeed-20260101"
        await store.record_call("s", ModelCall(usage, long, "p", 0.25))
        await store.record_call("s", ModelCall(usage + usage, "gpt", "p", 0.5))
        store.close()

    asyncio.run(fill())
    return home


def test_without_sessions_nothing_is_made(home):
    assert hermes_insights(home) == (0, "no sessions yet\n")
    assert hermes_insights(home, "--json")[1] == "{}\n"
    assert not home.root.exists()


def test_the_page_shows_what_happened(used):
    code, out = hermes_insights(used)
    assert code == 0
    assert "(30 days)" in out.splitlines()[0]
    assert "sessions    1\n" in out and "12,000 in, 9,000 of them cached; 1,500 out" in out
    assert "cache hits  75% of the input" in out and "cost        $0.7500" in out
    assert "terminal" in out and "\x1b" not in out and "\x07" not in out


def test_an_unknown_price_is_not_shown_as_zero(used):
    async def call_unpriced():
        store = open_store("", used.state_db)
        await store.record_call("s", ModelCall(Usage(input=10), "own", "custom", None))
        await store.record_call("s", ModelCall(Usage(input=10), "gpt", "p", None))
        store.close()

    asyncio.run(call_unpriced())
    out = hermes_insights(used)[1]
    assert "$0.7500, and 2 calls of unknown price" in out
    own, gpt = (
        next(line for line in out.splitlines() if line.startswith(f"  {name} "))
        for name in ("own", "gpt")
    )
    assert own.endswith("10 price unknown") and gpt.endswith("9.0k $0.5000 + ?")
    assert "$0.00" not in out


def test_json_has_every_figure(used):
    facts = json.loads(hermes_insights(used, "--days", "7", "--json")[1])
    assert (facts["sessions"], facts["tool_calls"], len(facts["days"])) == (1, 4, 7)
    assert facts["cache_hit_rate"] == 0.75
    assert facts["by_model"][0]["model"] == "gpt"
    assert len(facts["by_hour"]) == 7
    assert len(facts["by_hour"][0]) == 24


def test_another_source_is_empty(used):
    assert "no messages" in hermes_insights(used, "--source", "telegram")[1]


def test_days_that_make_no_sense_are_refused(used):
    with pytest.raises(UsageError):
        hermes_insights(used, "--days", "0")


@pytest.mark.parametrize("columns", [30, 40, 80, 100])
@pytest.mark.parametrize("days", [1, 30, 365])
def test_no_line_is_wider_than_the_terminal(used, columns, days):
    async def load():
        async with opened_store(used, "", print) as store:
            return await insights_of(store, days, SystemClock().now(), "", UTC)

    lines = list(page(asyncio.run(load()), Charts(columns), Paint()))
    assert max(map(width, lines)) <= columns


def test_bars_are_as_long_as_their_amounts():
    rows = Charts(40).bars(
        [ChartBar("a", 100, "100"), ChartBar("b", 50, "50"), ChartBar("c", 0, "0")]
    )
    assert [row.count("█") for row in rows] == [32, 16, 0]
    assert Charts(40).bars([]) == []
    tiny = Charts(40).bars([ChartBar("a", 1_000_000, "x"), ChartBar("b", 1, "y")])[1]
    assert "▏" in tiny


def test_a_sparkline_joins_days_that_do_not_fit():
    assert Charts(80).spark([0, 1, 8]) == " ▁█"
    assert len(Charts(40).spark([1.0] * 365)) <= 38
    assert Charts(40, ASCII).spark([0, 5, 10]).isascii()
    assert Charts(40).heat([0, 1, 100], 100) == " ░█"

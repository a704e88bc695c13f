from hermes.core.model import ModelCall, Usage


def spend(hermes, session, *calls):
    async def record(store):
        for call in calls:
            await store.record_call(session, call)

    hermes.store(record)


PRICED = ModelCall(Usage(1000, 50, 200), model="big", provider="p", cost_usd=1.5)
UNPRICED = ModelCall(Usage(10, 5), model="small", provider="local", task="title_generation")


def test_tokens_and_cost_are_shown_for_each_kind_of_call(hermes):
    spend(hermes, "20260101_aaaa", PRICED, PRICED, UNPRICED)
    head, big, small, total, _, note = hermes("usage").out.splitlines()
    assert head.split()[:3] == ["task", "model", "provider"]
    assert big.split() == ["main", "big", "p", "2", "2,000", "400", "100", "$3.00"]
    assert small.split() == ["title_generation", "small", "local", "1", "10", "0", "5", "unknown"]
    assert total.split() == ["total", "3", "2,010", "400", "105", "$3.00+?"]
    assert note == "the price of 1 call is not known"


def test_one_session_and_a_time_can_be_chosen(hermes):
    spend(hermes, "20260101_aaaa", PRICED)
    assert hermes("usage", "20260102").out == "no model was called\n"
    assert "$1.50" in hermes("usage", "the plan").out
    assert "$1.50" in hermes("usage", "--since", "1h").out
    (line,) = hermes("usage", "the plan", "--json").document
    assert (line["calls"], line["usage"]["cache_read"], line["cost_usd"]) == (1, 200, 1.5)
    assert hermes("usage", "--since", "2999-01-01").out == "no model was called in that time\n"
    assert hermes("usage", "nobody").code == 2

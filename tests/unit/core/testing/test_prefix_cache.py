"""The simulated cache: what is read, what is written, when it is forgotten, what it costs."""

from functools import reduce
from operator import getitem

import pytest

from hermes.core.model import Price, Usage
from hermes.core.testing import ModelServer, Refuse
from hermes.core.testing.prefix_cache import BYTES_PER_TOKEN, PrefixCache
from hermes.core.testing.wires import ANTHROPIC, CHAT, RESPONSES

EPHEMERAL = {"type": "ephemeral"}
TOOL = {"type": "function", "function": {"name": "a"}}


class Clock:
    """Time that moves when reported to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PrefixCache:
    return PrefixCache(clock)


def words(tokens: int, letter: str = "x") -> str:
    return letter * (tokens * BYTES_PER_TOKEN)


def chat(*texts: str, model: str = "m", **fields):
    messages = [{"role": "user", "content": text} for text in texts]
    return {"model": model, "messages": messages, **fields}


def marked(text: str, **mark):
    return [{"type": "text", "text": text, "cache_control": {**EPHEMERAL, **mark}}]


def claude(system, *contents):
    messages = [{"role": "user", "content": content} for content in contents]
    return {"model": "m", "system": system, "messages": messages, "max_tokens": 1}


def test_a_repeated_prompt_is_read_from_the_cache_in_blocks_of_128(cache):
    first = cache.measure(CHAT, chat(words(2000)))
    again = cache.measure(CHAT, chat(words(2000)))
    assert first.cache_read == 0
    assert again.cache_read == (first.input // 128) * 128
    assert again.prompt == first.prompt
    assert again.cache_write == 0


LOST = {
    "prompt under 1024 tokens": (chat(words(900)), chat(words(900))),
    "shared prefix under 1024 tokens": (
        chat(words(900), words(500, "a")),
        chat(words(900), words(500, "b")),
    ),
    "first byte": (chat(words(3000)), chat("y" + words(3000)[1:])),
    "tools": (chat(words(3000), tools=[TOOL]), chat(words(3000), tools=[TOOL, TOOL])),
    "model": (chat(words(3000)), chat(words(3000), model="other")),
}


@pytest.mark.parametrize("case", LOST)
def test_nothing_is_read_for_a_short_or_a_different_prefix(cache, case):
    first, second = LOST[case]
    cache.measure(CHAT, first)
    assert cache.measure(CHAT, second).cache_read == 0
    assert (cache.measure(CHAT, first).cache_read > 2900) == ("1024" not in case)


def test_a_shared_prefix_counts_up_to_its_last_whole_block(cache):
    cache.measure(CHAT, chat(words(1500), words(600, "a")))
    usage = cache.measure(CHAT, chat(words(1500), words(600, "b")))
    assert 1500 // 128 * 128 <= usage.cache_read <= 1536
    assert usage.cache_read % 128 == 0


def test_a_growing_conversation_pays_only_for_what_is_new(cache):
    texts = [words(1500)]
    cache.measure(CHAT, chat(*texts))
    for turn in range(5):
        texts.append(words(200, str(turn)))
        usage = cache.measure(CHAT, chat(*texts))
        assert usage.input < 200 + 2 * 128


def test_an_entry_is_forgotten_after_five_idle_minutes(cache, clock):
    cache.measure(CHAT, chat(words(3000)))
    clock.now += 299
    assert cache.measure(CHAT, chat(words(3000))).cache_read > 0
    clock.now += 299
    assert cache.measure(CHAT, chat(words(3000))).cache_read > 0, "reading keeps it"
    clock.now += 301
    assert cache.measure(CHAT, chat(words(3000))).cache_read == 0


def test_responses_are_cached_by_instructions_and_input(cache):
    body = {"model": "m", "instructions": words(2000), "input": "hello"}
    cache.measure(RESPONSES, body)
    assert cache.measure(RESPONSES, {**body, "input": "bye"}).cache_read >= 1920


@pytest.mark.parametrize("system", [words(3000), marked(words(900))], ids=["no mark", "short"])
def test_anthropic_caches_nothing_without_marks_or_under_1024_tokens(cache, system):
    for _ in range(2):
        usage = cache.measure(ANTHROPIC, claude(system, "hi"))
        assert (usage.cache_read, usage.cache_write) == (0, 0)
        assert usage.input > 900


def test_anthropic_writes_up_to_the_mark_and_reads_it_next_time(cache):
    body = claude(marked(words(2000)), words(100))
    first = cache.measure(ANTHROPIC, body)
    again = cache.measure(ANTHROPIC, body)
    assert first.cache_write == again.cache_read >= 2000
    assert (first.cache_read, again.cache_write) == (0, 0)
    assert 100 <= first.input == again.input < 130


def test_a_mark_that_moves_on_reads_the_old_part_and_writes_the_new(cache):
    """The mark leaves the first message, whose text goes back to a plain string."""
    first = cache.measure(ANTHROPIC, claude(marked(words(1500)), marked(words(300, "a"))))
    body = claude(marked(words(1500)), words(300, "a"), marked(words(200, "b")))
    second = cache.measure(ANTHROPIC, body)
    assert second.cache_read == first.cache_write
    assert 200 <= second.cache_write < 230
    assert second.input == 0


def test_an_entry_too_far_before_the_mark_is_not_found(cache):
    system = words(1500)
    texts = [f"message {n}" for n in range(30)]
    cache.measure(ANTHROPIC, claude(system, *texts[:5], marked("end")))
    near = claude(system, *texts[:5], "end", *texts[5:23], marked("z"))
    far = claude(system, *texts[:5], "end", *texts[5:24], marked("z"))
    assert cache.measure(ANTHROPIC, far).cache_read == 0
    assert cache.measure(ANTHROPIC, near).cache_read > 1500


def test_a_mark_on_the_message_itself_counts(cache):
    body = {
        "model": "m",
        "messages": [{"role": "tool", "content": words(2000), "cache_control": EPHEMERAL}],
    }
    assert cache.measure(CHAT, body).cache_write >= 2000
    assert cache.measure(CHAT, body).cache_read >= 2000


def test_an_hour_long_mark_outlives_the_short_one(cache, clock):
    short, long = claude(marked(words(2000)), "a"), claude(marked(words(2000, "l"), ttl="1h"), "a")
    cache.measure(ANTHROPIC, short)
    cache.measure(ANTHROPIC, long)
    clock.now += 3599
    assert cache.measure(ANTHROPIC, short).cache_read == 0
    assert cache.measure(ANTHROPIC, long).cache_read >= 2000
    clock.now += 3601
    assert cache.measure(ANTHROPIC, long).cache_read == 0


def test_more_than_four_marks_are_refused_as_the_real_service_does(post):
    with ModelServer([]) as server:
        messages = [{"role": "user", "content": marked("x")}] * 5
        answered = post(server, "/v1/messages", messages=messages)
    assert answered.status == 400
    assert "maximum of 4 blocks with cache_control" in answered.json["error"]["message"]


WIRES = {
    "/v1/chat/completions": (chat(words(2000)), "prompt_tokens_details", "cached_tokens"),
    "/v1/messages": (claude(marked(words(2000)), "hi"), "cache_read_input_tokens"),
    "/v1/responses": ({"input": words(2000)}, "input_tokens_details", "cached_tokens"),
}


def test_the_usage_of_each_wire_tells_what_was_cached(ask, path, stream):
    body, *fields = WIRES[path]
    with ModelServer(["a", "b"]) as server:
        usages = [ask(server, path, stream=stream, **body).usage for _ in range(2)]
    first, second = (reduce(getitem, fields, usage) for usage in usages)
    assert first == 0
    assert second >= 1920


def test_a_refused_call_is_not_cached_and_not_billed(post, ask):
    path, body = "/v1/chat/completions", chat(words(2000))
    with ModelServer([Refuse("rate_limited"), "first", "second"]) as server:
        assert post(server, path, **body).status == 429
        read = [ask(server, path, **body).usage["prompt_tokens_details"] for _ in range(2)]
        assert server.session_report().calls == 2
    assert [details["cached_tokens"] > 0 for details in read] == [False, True]


def test_a_session_is_priced_as_a_whole(post, clock):
    price = Price(input=10.0, output=100.0, cache_read=1.0, cache_write=12.5)
    body = claude(marked(words(2000)), words(100))
    with ModelServer(["four"] * 3, clock=clock) as server:
        for _ in range(3):
            post(server, "/v1/messages", **body)
        report = server.session_report(price)
    usage = report.usage
    assert report.calls == 3
    assert usage.cache_read == 2 * usage.cache_write
    assert usage.output == 3
    assert report.read_share == usage.cache_read / usage.prompt
    assert 0.6 < report.read_share < 0.67
    expected = usage.input * 10 + 3 * 100 + usage.cache_read * 1 + usage.cache_write * 12.5
    assert report.cost == pytest.approx(expected / 1e6)
    assert f"{usage.cache_read} cache read" in str(report)


def test_a_session_without_calls_has_no_read_share():
    server = ModelServer([])
    assert server.session_report().read_share == 0.0
    assert server.session_report().usage == Usage()

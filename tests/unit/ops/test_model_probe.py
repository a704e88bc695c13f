"""Trying a model out: each ability has its own finding, and a refusal is one."""

import base64
import zlib

import pytest

from hermes.core.errors import CredentialRefused, RequestRefused, ServerFault, ToolsRefused
from hermes.core.messages import Image, Thinking, ToolCall
from hermes.core.model import Price, Usage
from hermes.core.testing import ScriptedModel, Step
from hermes.core.testing.script import as_step
from hermes.ops.model_probe import ProbeFinding, one_colour_png, probe
from hermes.providers.endpoints import ModelProfile

BLUE = ToolCall("c1", "report_colour", '{"colour": "blue"}')
THOUGHT = [Thinking("hm"), "0.05"]


def used(item, **counts: int) -> Step:
    step = as_step(item)
    return Step(step.parts, usage=Usage(**counts))


GOOD = (
    used("ready", input=10, output=1),
    BLUE,
    "Red.",
    THOUGHT,
    used("one", input=2500, output=1),
    used("two", input=100, cache_read=2400, output=1),
)


async def findings(
    steps,
    profile: ModelProfile = ModelProfile(),  # noqa: B008 - frozen
    **options,
) -> dict[str, ProbeFinding]:
    with ScriptedModel(steps) as model:
        return {finding.name: finding async for finding in probe(model, profile, **options)}


async def test_a_model_that_can_do_everything():
    found = await findings(GOOD)
    assert list(found) == [
        "answer",
        "streaming",
        "usage",
        "tools",
        "images",
        "reasoning",
        "caching",
    ]
    assert {finding.verdict for finding in found.values()} == {"works"}
    assert found["usage"].detail == "10 tokens read, 1 written"
    assert found["caching"].detail == "2400 of 2500 tokens came from the cache"


async def test_times_are_reported():
    ticks = iter(range(100))
    found = await findings(GOOD, monotonic=lambda: next(ticks) / 2)
    assert found["answer"].detail == "'ready', first word after 0.5s, all after 1.0s"


async def test_cost_of_each_call_is_reported_if_the_price_is_known():
    found = await findings(GOOD, ModelProfile(price=Price(10, 100, 1, 10)))
    assert found["answer"].cost == pytest.approx(0.0002)
    assert found["caching"].cost == pytest.approx(0.0251 + 0.0035)
    assert (await findings(GOOD))["answer"].cost is None


async def test_a_model_that_can_do_little():
    steps = [
        used("ready", output=0),
        "I would call it, but I have no tools.",
        "It looks blue to me.",
        "0.05",
        used("one", input=2500),
        used("two", input=2500),
    ]
    found = await findings(steps)
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert verdicts == {
        "answer": "works",
        "streaming": "works",
        "usage": "does not",
        "tools": "does not",
        "images": "does not",
        "reasoning": "does not",
        "caching": "does not",
    }
    assert found["images"].detail == "it saw a red picture as 'It looks blue to me.'"


async def test_a_refusal_of_one_ability_does_not_end_the_others():
    steps = [
        GOOD[0],
        ToolsRefused("tools are not supported"),
        RequestRefused("no image input"),
        ServerFault("internal error"),
        *GOOD[4:],
    ]
    found = await findings(steps)
    assert (found["tools"].verdict, found["images"].verdict) == ("does not", "does not")
    assert found["tools"].detail == "refused: tools are not supported"
    assert (found["reasoning"].verdict, found["caching"].verdict) == ("failed", "works")


async def test_after_a_passing_failure_the_rest_is_tried_all_the_same():
    found = await findings([ServerFault("hiccup"), *GOOD[1:]])
    assert (found["answer"].verdict, found["tools"].verdict) == ("failed", "works")


async def test_with_a_wrong_key_nothing_more_is_tried():
    found = await findings([CredentialRefused("wrong key")])
    assert found["answer"] == ProbeFinding("answer", "failed", "wrong key")
    others = [finding for name, finding in found.items() if name != "answer"]
    assert {finding.verdict for finding in others} == {"not tried"}


async def test_unsupported_features_are_not_tried():
    steps = [GOOD[0], THOUGHT, *GOOD[4:]]
    found = await findings(steps, ModelProfile(tools=False, images=False))
    assert (found["tools"].verdict, found["images"].verdict) == ("not tried", "not tried")


@pytest.mark.parametrize(
    "call", [ToolCall("c", "other", "{}"), ToolCall("c", "report_colour", '{"colour": ')]
)
async def test_a_call_that_is_not_valid_does_not_count(call):
    found = await findings([GOOD[0], call, *GOOD[2:]])
    assert found["tools"].verdict == "does not"


@pytest.mark.parametrize(("form", "effort"), [("effort", "low"), ("", "")])
async def test_effort_is_asked_for_only_where_there_is_a_way_to(form, effort):
    with ScriptedModel(GOOD) as model:
        async for _finding in probe(model, ModelProfile(reasoning=form)):
            pass
    assert model.requests[3].reasoning_effort == effort


async def test_the_prompts_for_caching_differ_only_at_their_end():
    with ScriptedModel(GOOD) as model:
        async for _finding in probe(model, ModelProfile()):
            pass
    one, two = model.requests[-2:]
    assert one.messages[0] == two.messages[0]
    assert len(one.messages[0].text) > 8000
    assert one.messages[1] != two.messages[1]


async def test_the_picture_is_a_red_square():
    with ScriptedModel(GOOD) as model:
        async for _finding in probe(model, ModelProfile()):
            pass
    picture = model.requests[2].messages[0].parts[1]
    assert isinstance(picture, Image)
    png = base64.b64decode(picture.url.partition(",")[2])
    assert png == one_colour_png()
    start = png.index(b"IDAT") + 4
    pixels = zlib.decompress(png[start : png.index(b"IEND") - 8])
    assert pixels == (b"\x00" + b"\xff\x00\x00" * 64) * 64

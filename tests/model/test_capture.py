"""The capture endpoint with the real embedded model: what it records is what the model computes."""

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from hermes.core.messages import Assistant, Message, ToolResult
from hermes.core.model import ModelRequest
from hermes.envs import CaptureServer, Trace
from hermes.providers.endpoints import ModelProfile, Target
from hermes.providers.wire.model import WireModel
from tests.model.test_wire_llama import ASKED, KEY, TOOL, address

__all__ = ["address"]

pytestmark = [pytest.mark.model, pytest.mark.internet, pytest.mark.timeout(300)]

SAME = 1e-4  #: Of log probabilities that were computed in the same way.
SIMILAR = 0.05
"""Of log probabilities that were computed once token by token and once in a batch: the kernels for
quantized weights round differently."""


async def next_token(
    client: httpx2.AsyncClient, address: str, ids: Sequence[int], *, computed: bool
) -> tuple[int, float]:
    """Return the most likely token after `ids` and its log probability. `computed`: take the values
    of an earlier pass over a longer sequence."""
    body = {"prompt": list(ids), "n_predict": 1, "temperature": 0, "n_probs": 1}
    body |= {"cache_prompt": computed, "return_tokens": True}
    headers = {"authorization": f"Bearer {KEY}"}
    reply = await client.post(f"{address}/completion", json=body, headers=headers)
    reply.raise_for_status()
    (found,) = reply.json()["completion_probabilities"]
    return found["id"], found["logprob"]


async def test_recorded_ids_and_logprobs_equal_a_pass_over_the_whole_sequence(address) -> None:
    async with (
        CaptureServer(address, "llama.cpp", api_key=KEY, parser="llama3_json") as capture,
        httpx2.AsyncClient(timeout=300) as client,
    ):
        target = Target(
            provider="custom",
            model="tiny",
            base_url=capture.url("r"),
            profile=ModelProfile(streaming="never", extra_body={"temperature": 0}),
        )
        model, history = WireModel(target, client), ASKED
        calls: list[Any] = []
        while True:
            request = ModelRequest(history, (TOOL,), max_tokens=40)
            reply: Assistant = (await model.call(request, lambda _event: None)).message
            if not reply.calls:
                break
            calls += reply.calls
            results: list[Message] = [ToolResult(c.id, c.name, "17 degrees.") for c in reply.calls]
            history = (*history, reply, *results)
        recorder = capture.take("r")
        assert [call.name for call in calls] == ["get_temperature"]
        assert "17" in reply.text

        trace = Trace("r", "k", "h", "tiny", nodes=recorder.nodes, tools=recorder.tools)
        (branch,) = trace.branches()
        assert branch.token_exact
        places = [place for place, flag in enumerate(branch.mask) if flag]
        assert len(places) > 15
        assert sum(node.sampled for node in trace.nodes) == 2
        recorded = {p: (branch.token_ids[p], branch.logprobs[p]) for p in places}
        first = [place for place in places if place - 1 not in recorded]
        assert len(first) == 2
        for place in first:
            beginning = branch.token_ids[:place]
            found = await next_token(client, address, beginning, computed=False)
            assert found == (recorded[place][0], pytest.approx(recorded[place][1], abs=SAME))
        # Without one token, such as the line break after the first reply, it is not the same.
        end = max(place for place in places if place < first[1])
        broken = (*branch.token_ids[: end + 1], *branch.token_ids[end + 2 : first[1]])
        _, logprob = await next_token(client, address, broken, computed=False)
        assert abs(logprob - recorded[first[1]][1]) > 10 * SAME

        await next_token(client, address, branch.token_ids, computed=False)
        wrong = []
        for place in reversed(places):
            beginning = branch.token_ids[:place]
            token, logprob = await next_token(client, address, beginning, computed=True)
            if token != recorded[place][0] or abs(logprob - recorded[place][1]) > SIMILAR:
                wrong.append((place, token, logprob, recorded[place]))
        assert not wrong

        text = await client.post(
            f"{address}/detokenize",
            json={"tokens": list(branch.token_ids)},
            headers={"authorization": f"Bearer {KEY}"},
        )
        whole = text.json()["content"]
        assert whole.count("<|im_end|>\n<|im_start|>") == 4, "no line break was lost between turns"

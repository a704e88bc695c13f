"""Our own agent in the `train` profile, through each front of the capture endpoint."""

import json
from itertools import pairwise
from typing import Any, get_args

import pytest

from hermes.core.model import ApiMode
from hermes.envs import CaptureServer, ModelEndpoint, Task, reward, rollout
from tests.unit.envs.token_server import END, TokenServer, sampled


class Free(Task, frozen=True):
    @reward
    def one(self, trace, ctx) -> float:
        return 1.0


def call(command: str) -> str:
    arguments: dict[str, Any] = {"name": "terminal", "arguments": {"command": command}}
    return f"<tool_call>\n{json.dumps(arguments)}\n</tool_call>"


REPLIES = [
    f"<think>\nLook first.\n</think>\n\nI look.\n{call('echo one')}",
    f"<think>\nTwice.\n</think>\n\n{call('echo two')}\n{call('exit 3')}",
    '<tool_call>\n{"name": "no_such_tool", "arguments": {}}\n</tool_call>',
    "<think>\nDone.\n</think>\n\nThat was it.",
]


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
@pytest.mark.parametrize("mode", get_args(ApiMode))
async def test_each_prompt_extends_the_tokens_before_exactly(mode, kind) -> None:
    with TokenServer(REPLIES) as server:
        async with CaptureServer(server.url, kind, parser="hermes") as capture:
            endpoint = ModelEndpoint(
                base_url="", model="lab", api_mode=mode, sampling={"temperature": 1.0}
            )
            trace = await rollout(Free(prompt="Go."), (capture, endpoint))
    assert trace.failure is None, trace.failure
    assert len(server.prompts) == len(REPLIES)
    pairs = zip(pairwise(server.prompts), REPLIES, strict=False)
    for (before, after), reply in pairs:
        known = [*before, *sampled(reply), END]
        assert after[: len(known)] == known
        assert len(after) > len(known), "the results of the tools follow"
    (branch,) = trace.branches()
    assert branch.token_exact
    assert list(branch.token_ids) == [*server.prompts[-1], *sampled(REPLIES[-1]), END]
    assert [message["role"] for message in branch.messages][-8:] == [
        "assistant", "tool", "assistant", "tool", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip

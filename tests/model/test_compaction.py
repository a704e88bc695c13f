"""Compactions whose notes the embedded model writes: whatever it writes, nothing needed is gone."""

import asyncio
import json
import sys
from pathlib import Path

import httpx2
import pytest

from hermes.context.compressor import ContextCompressor
from hermes.context.conversation import estimate_messages_tokens_rough
from hermes.context.engine import Dict, Dicts, SummaryAnswer, SummaryModel
from hermes.core.messages import from_dict
from hermes.core.model import ModelRequest
from hermes.providers.endpoints import Credential, ModelProfile, Target
from hermes.providers.local.runtime import ModelProcess
from hermes.providers.wire.model import WireModel
from hermes.sdk.testing.context import conversation_faults
from tests.compaction.checks import lost
from tests.compaction.stories import story

pytestmark = [pytest.mark.model, pytest.mark.internet, pytest.mark.timeout(600)]

WINDOW = 4_096
"""Tokens the model reads and writes at once."""
MOST = 300
"""Tokens of what it writes, to keep the test short."""
CHARS = 40
"""Of a tool result or an argument in a shortened transcript."""
LENGTH = 6_000
"""Context length of the conversation."""


def shortened(name: str) -> Dicts:
    """A story without its finished tasks, and with short arguments and results."""
    messages, facts = story(name)[0]
    said = [str(message["content"]) for message in messages]
    begun = next(at for at, text in enumerate(said) if facts.task in text)
    kept: Dicts = []
    for message in [*messages[:3], *messages[begun:]]:
        short = dict(message)
        if message["role"] == "tool":
            short["content"] = message["content"][:CHARS]
        if calls := message.get("tool_calls"):
            short["tool_calls"] = [{**call, "function": _cut(call["function"])} for call in calls]
        kept.append(short)
    return kept


def _cut(function: Dict) -> Dict:
    given = json.loads(function["arguments"])
    short = {key: val[:CHARS] if isinstance(val, str) else val for key, val in given.items()}
    return {**function, "arguments": json.dumps(short, ensure_ascii=False)}


async def asked(model: WireModel, messages: Dicts, most: int) -> str:
    request = ModelRequest(
        tuple(map(from_dict, messages)), max_tokens=min(most, MOST), temperature=0
    )
    return (await model.call(request, lambda _event: None)).message.text


@pytest.mark.parametrize("name", ["warehouse_in_sql"])
async def test_a_small_model_writes_the_notes_and_nothing_needed_is_gone(
    weights_file: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    loop, replies = asyncio.get_running_loop(), []
    process = await ModelProcess.start(weights_file, context=WINDOW, threads=2, cache=tmp_path)
    target = Target(
        provider="local",
        model="tiny",
        base_url=process.base_url,
        credentials=(Credential("process", process.api_key),),
        profile=ModelProfile(keep_alive=False),
    )
    async with httpx2.AsyncClient() as client:
        model = WireModel(target, client)

        def ask(messages: Dicts, most: int) -> SummaryAnswer:
            future = asyncio.run_coroutine_threadsafe(asked(model, messages, most), loop)
            replies.append(future.result())
            return SummaryAnswer(replies[-1], "tiny")

        engine = ContextCompressor(LENGTH)
        engine.on_session_start("session-0", summarisers=[SummaryModel(ask, WINDOW)])
        messages, facts = shortened(name), story(name)[0].facts
        before = estimate_messages_tokens_rough(messages)
        compacted = await asyncio.to_thread(engine.compress, messages, before)
    await process.close()
    after = estimate_messages_tokens_rough(compacted)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{name}: {before} to {after} tokens, {len(replies)} replies, notes by "
            f"{engine.summary_model or 'no model'}\n"
        )
    assert replies
    assert lost(facts, compacted) == {}
    assert conversation_faults(compacted) == []
    assert after < before

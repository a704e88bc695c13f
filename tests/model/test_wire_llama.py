"""Our three wires against llama.cpp's own HTTP server: a conversation with a native tool call.

llama.cpp finds out from the chat template how a model writes a tool call. The smallest model does
not write it the way its own template says, so it gets one that fits what it does write.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import get_args

import httpx2
import pytest

from hermes.config.settings import ApiMode
from hermes.core.messages import Assistant, Message, System, ToolResult, User
from hermes.core.model import ModelEvent, ModelRequest, Reply, TextDelta, ToolSpec
from hermes.providers.endpoints import Credential, ModelProfile, Target
from hermes.providers.wire.model import WireModel

pytestmark = [pytest.mark.model, pytest.mark.internet]

TEMPLATE = Path(__file__).with_name("chat_template.jinja").read_text()
CHILD = """
import json, sys
import xllamacpp
from hermes.providers.local.serve import ServeOrder
from hermes.providers.local.serve import server_parameters as params_of
given = json.loads(sys.stdin.readline())
template = given.pop("template")
params = params_of(ServeOrder(**given))
params.chat_template = template
server = xllamacpp.Server(params)
print("\\n" + server.listening_address, flush=True)
sys.stdin.read()
"""
KEY = "a-key-of-this-test"
ASKED = (
    System("You are a helpful assistant."),
    User.say("What is the temperature in Paris? Use the tool get_temperature."),
)
TOOL = ToolSpec(
    "get_temperature",
    "Get the current temperature of a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city"}},
        "required": ["city"],
    },
)


@pytest.fixture(scope="module")
def address(weights_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server in a process of its own; it ends with its standard input."""
    order = {
        "model": str(weights_file),
        "alias": "tiny",
        "api_key": KEY,
        "context": 1024,
        "threads": 2,
        "slots": f"{tmp_path_factory.mktemp('slots')}/",
        "template": TEMPLATE,
    }
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        found = next((line.strip() for line in process.stdout if line.startswith("http")), "")
        assert found, "llama.cpp's server did not start"
        yield found
        process.kill()


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


async def ask(
    model: WireModel, messages: tuple[Message, ...], *, stream: bool
) -> tuple[list[str], Reply]:
    request = ModelRequest(messages, (TOOL,), max_tokens=60, temperature=0, stream=stream)
    deltas: list[ModelEvent] = []
    reply = await model.call(request, deltas.append)
    return [delta.text for delta in deltas if isinstance(delta, TextDelta)], reply


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("mode", get_args(ApiMode))
async def test_tool_call_result_is_sent_back_to_the_model(address, client, mode, stream):
    target = Target(
        provider="custom",
        model="tiny",
        base_url=f"{address}/v1",
        api_mode=mode,
        credentials=(Credential("test", KEY),),
        profile=ModelProfile(keep_alive=False),
    )
    model = WireModel(target, client)
    texts, reply = await ask(model, ASKED, stream=stream)
    (call,) = reply.message.calls
    assert (call.name, json.loads(call.arguments)) == ("get_temperature", {"city": "Paris"})
    assert reply.message.finish_reason == "tool_calls"
    assert "".join(texts).strip() == ""
    assert reply.usage.prompt > 80
    assert reply.usage.output > 5

    answered = ToolResult(call.id, call.name, "17 degrees.")
    turn: tuple[Message, ...] = (*ASKED, Assistant((call,), "tool_calls"), answered)
    texts, reply = await ask(model, turn, stream=stream)
    assert not reply.message.calls
    assert "17" in reply.message.text
    assert reply.message.finish_reason == "stop"
    assert (len(texts) > 3, "".join(texts) == reply.message.text) == (stream, stream)

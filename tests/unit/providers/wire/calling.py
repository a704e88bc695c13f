"""How the tests of the wires make a call."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from hermes.core.messages import System, Thinking, User
from hermes.core.model import ModelEvent, ModelRequest, Reply
from hermes.core.testing import ModelServer
from hermes.providers.endpoints import Credential, ModelProfile, Target
from hermes.providers.wire.model import WireModel, dialect_for

MODES = ("chat_completions", "anthropic_messages", "codex_responses")
THOUGHTS = {
    "chat_completions": Thinking(
        "let me look", ({"type": "reasoning.text", "text": "let me look", "signature": "c2ln"},)
    ),
    "anthropic_messages": Thinking(
        "let me look", ({"type": "thinking", "thinking": "let me look", "signature": "c2ln"},)
    ),
    "codex_responses": Thinking(
        "let me look",
        items=(
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "let me look"}],
                "encrypted_content": "gAAAA",
            },
        ),
    ),
}
"""A thought as each wire sends it: signed or encrypted."""
ASK = ModelRequest((System("be brief"), User.say("hello")))
KEY = Credential("env:ACME_API_KEY", "secret-key")


def target(mode: str = "chat_completions", base_url: str = "http://x/v1", **fields: Any) -> Target:
    """A target; what is not a field of one is a field of its profile."""
    own = {name: fields.pop(name) for name in list(fields) if name in Target.__struct_fields__}
    if fields:
        own["profile"] = ModelProfile(**fields)
    given = {"provider": "acme", "model": "m", "credentials": (KEY,), **own}
    return Target(base_url=base_url, api_mode=mode, **given)


def body_of(mode: str, request: ModelRequest, *, stream: bool = False, **fields: Any) -> Any:
    """What would be sent, decoded."""
    return json.loads(dialect_for(target(mode, **fields)).body(request, stream))


def wire(server: ModelServer, client: httpx2.AsyncClient, mode: str, **fields: Any) -> WireModel:
    return WireModel(target(mode, f"{server.url}/v1", **fields), client)


async def ask(model: WireModel, request: ModelRequest = ASK) -> tuple[list[ModelEvent], Reply]:
    deltas: list[ModelEvent] = []
    reply = await model.call(request, deltas.append)
    assert isinstance(reply, Reply)
    return deltas, reply


def read(mode: str, *events: Any, **fields: Any) -> tuple[list[ModelEvent], Reply]:
    """A reply from its events, without HTTP."""
    reader = dialect_for(target(mode, **fields)).reader()
    deltas: list[ModelEvent] = []
    for event in events:
        data = event.encode() if isinstance(event, str) else json.dumps(event).encode()
        deltas += reader.feed(data) or ()
    return deltas, reader.reply()


def read_whole(mode: str, body: Any, **fields: Any) -> Reply:
    reader = dialect_for(target(mode, **fields)).reader()
    reader.feed_body(json.dumps(body).encode())
    return reader.reply()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def load(name: str) -> Any:
    """Return the content of a JSON file of this folder."""
    return json.loads(Path(__file__).with_name(name).read_text())

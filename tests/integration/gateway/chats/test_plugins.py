"""Plugins that look at messages before the agent does."""

import pytest

from hermes.core.testing import ModelServer
from tests.integration.gateway.chats.conftest import Town

PLUGIN = """
def look(event, gateway, session_store, **_):
    if "spam" in event.text:
        return {"action": "skip", "reason": "spam"}
    if event.text == "hi":
        return {"action": "rewrite", "text": "good morning"}

def register(ctx):
    ctx.register_hook("pre_gateway_dispatch", look)
"""


@pytest.fixture
def watching(town: Town) -> Town:
    folder = town.home / "plugins" / "watch"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: watch\nversion: '1'\ndescription: looks\n")
    (folder / "__init__.py").write_text(PLUGIN)
    return town


async def test_a_plugin_skips_and_rewrites_messages(watching: Town, echoing: ModelServer) -> None:
    await watching.open(echoing, plugins__enabled=["watch"])
    watching.say("buy spam")
    await watching.asks("hi", "good morning")
    await watching.settled()
    assert watching.texts() == ["good morning"]

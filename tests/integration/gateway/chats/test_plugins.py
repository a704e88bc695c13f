"""Plugins that look at messages before the agent does."""

import pytest

from hermes.core.testing import ModelServer
from tests.integration.gateway.chats.conftest import GatewayHarness

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
def watching(harness: GatewayHarness) -> GatewayHarness:
    folder = harness.home / "plugins" / "watch"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: watch\nversion: '1'\ndescription: looks\n")
    (folder / "__init__.py").write_text(PLUGIN)
    return harness


async def test_a_plugin_skips_and_rewrites_messages(
    watching: GatewayHarness, echoing: ModelServer
) -> None:
    await watching.open(echoing, plugins__enabled=["watch"])
    watching.say("buy spam")
    await watching.ask("hi", "good morning")
    await watching.wait_idle()
    assert watching.texts() == ["good morning"]

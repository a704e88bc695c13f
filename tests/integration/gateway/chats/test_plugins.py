"""Plugins that look at messages before the agent does."""

PLUGIN = """
def look(event, gateway, session_store, **_):
    if "spam" in event.text:
        return {"action": "skip", "reason": "spam"}
    if event.text == "hi":
        return {"action": "rewrite", "text": "good morning"}

def register(ctx):
    ctx.register_hook("pre_gateway_dispatch", look)
"""


async def test_a_plugin_skips_and_rewrites_messages(harness):
    folder = harness.home / "plugins" / "watch"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: watch\nversion: '1'\ndescription: looks\n")
    (folder / "__init__.py").write_text(PLUGIN)
    await harness.open(plugins__enabled=["watch"])
    harness.say("buy spam")
    await harness.ask("hi", "good morning")
    await harness.wait_idle()
    assert harness.texts() == ["good morning"]

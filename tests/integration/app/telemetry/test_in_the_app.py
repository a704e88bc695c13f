"""Traces of a real agent, from the settings to the collector."""

import json

from hermes.compat.agent import AIAgent
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer


def test_a_turn_with_a_subagent_is_one_trace(collector, hermes_home, tmp_path):
    hermes_home.mkdir(exist_ok=True)
    (hermes_home / "config.yaml").write_text(
        "sessions: {auto_title: false}\n"
        f"telemetry: {{enabled: true, endpoint: '{collector.endpoint}'}}\n"
    )
    task = ToolCall("c1", "delegate_task", json.dumps({"goal": "look around"}))
    with ModelServer([task, "nothing here", "all done"]) as server:
        agent = AIAgent(
            base_url=f"{server.url}/v1",
            api_key="lab-key",
            model="lab",
            quiet_mode=True,
            working_folder=tmp_path,
        )
        result = agent.run_conversation("go")
        agent.close()
    assert result["completed"]
    kinds = [span.attributes.get("gen_ai.operation.name") for span in collector.spans]
    assert sorted(filter(None, kinds)) == [
        "chat", "chat", "chat", "execute_tool", "invoke_agent", "invoke_agent",
    ]  # fmt: skip
    assert len({span.trace for span in collector.spans}) == 1
    sessions = {span.attributes.get("gen_ai.conversation.id") for span in collector.spans}
    assert result["session_id"] in sessions

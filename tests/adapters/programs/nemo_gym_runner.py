"""Runs one rollout as the Hermes agent of NeMo Gym does, with documented names only.

Reads the arguments of the agent and of the turn as JSON from standard input; prints the result.
"""

import json
import sys

from run_agent import AIAgent

rollout = json.load(sys.stdin)
agent = AIAgent(
    api_key="gym",
    quiet_mode=True,
    skip_context_files=True,
    skip_memory=True,
    **rollout["agent"],
)
result = agent.run_conversation(**rollout["turn"])
json.dump(result, sys.stdout)

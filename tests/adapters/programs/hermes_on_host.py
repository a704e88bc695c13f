"""The Hermes harness of verifiers for the subprocess runtime: `harness.id hermes_on_host`.

Verifiers refuses its own harness there, because an agent may do harm outside a container. The agent
of these tests is scripted.
"""

from verifiers.v1.harnesses.hermes_agent import HermesAgentHarness


class HermesOnHost(HermesAgentHarness):
    NEEDS_CONTAINER = False


__all__ = ["HermesOnHost"]

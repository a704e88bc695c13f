"""Memory providers. `memory.provider` names the one in use."""

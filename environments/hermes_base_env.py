"""`environments.hermes_base_env`, for programs that run in this folder's parent."""

from hermes.compat.environments import HermesAgentBaseEnv, HermesAgentEnvConfig

__all__ = ["HermesAgentBaseEnv", "HermesAgentEnvConfig"]

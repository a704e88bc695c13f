"""The moments plugins and shell hooks can attach to, and what they may answer."""

from enum import StrEnum
from typing import Any, Protocol


class HookName(StrEnum):
    PRE_TOOL_CALL = "pre_tool_call"
    POST_TOOL_CALL = "post_tool_call"
    TRANSFORM_TOOL_RESULT = "transform_tool_result"
    TRANSFORM_TERMINAL_OUTPUT = "transform_terminal_output"
    PRE_LLM_CALL = "pre_llm_call"
    POST_LLM_CALL = "post_llm_call"
    PRE_API_REQUEST = "pre_api_request"
    POST_API_REQUEST = "post_api_request"
    ON_SESSION_START = "on_session_start"
    ON_SESSION_END = "on_session_end"
    ON_SESSION_FINALIZE = "on_session_finalize"
    ON_SESSION_RESET = "on_session_reset"
    SUBAGENT_STOP = "subagent_stop"
    PRE_GATEWAY_DISPATCH = "pre_gateway_dispatch"
    PRE_APPROVAL = "pre_approval"
    POST_APPROVAL = "post_approval"


class Hooks(Protocol):
    """Calls every listener of a moment with keyword arguments.

    A listener that raises is reported and skipped; it never breaks a turn.
    """

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        """What the listeners answered, in order, without the Nones."""
        ...

    def listens(self, name: HookName) -> bool:
        """Whether anybody does, so that nothing is prepared for nobody."""
        ...


class NoHooks:
    """No listener anywhere."""

    async def fire(self, name: HookName, **details: Any) -> list[Any]:  # noqa: ARG002 - nobody listens
        return []

    def listens(self, name: HookName) -> bool:  # noqa: ARG002 - nobody listens
        return False

"""How hard the model should think, in the words of its endpoint."""

from collections.abc import Callable
from typing import Any

from hermes.providers.profile import ReasoningForm

BUDGETS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32768}
"""Tokens of thinking for endpoints that want a number."""
LEAST_BUDGET = 1024


def effort_fields(form: ReasoningForm, effort: str) -> dict[str, Any]:
    """The fields of the request that ask for `effort`; none when there is nothing to ask."""
    return _FORMS[form](effort) if effort else {}


def _budget(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": BUDGETS.get(effort, 8192)}}


def _adaptive(effort: str) -> dict[str, Any]:
    if effort == "none":
        return {}
    # Newer models leave their thoughts out unless they are asked for.
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low" if effort == "minimal" else effort},
    }


_FORMS: dict[ReasoningForm, Callable[[str], dict[str, Any]]] = {
    "": lambda _: {},
    "effort": lambda effort: {"reasoning_effort": effort},
    "object": lambda effort: {"reasoning": {"effort": effort}},
    "budget": _budget,
    "adaptive": _adaptive,
    "switch": lambda effort: {
        "thinking": {"type": "disabled" if effort == "none" else "enabled"},
    },
    "enable_thinking": lambda effort: {"enable_thinking": effort != "none"},
}

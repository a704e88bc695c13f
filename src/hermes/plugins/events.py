"""What each hook is told, and what becomes of its answers.

The first ten rows are documented interfaces; the others are ours.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from hermes.core.hooks import HookName
from hermes.util.text import cut_middle

_CALL = ("tool_name", "args", "task_id")
_REQUEST = ("session_id", "model", "provider")
_TALK = ("conversation_history", "model", "platform")

ARGUMENTS: Mapping[HookName, tuple[str, ...]] = {
    HookName.PRE_TOOL_CALL: _CALL,
    HookName.POST_TOOL_CALL: (*_CALL, "result"),
    HookName.PRE_LLM_CALL: ("session_id", "user_message", "is_first_turn", *_TALK),
    HookName.POST_LLM_CALL: ("session_id", "user_message", "assistant_response", *_TALK),
    HookName.ON_SESSION_START: ("session_id", "model", "platform"),
    HookName.ON_SESSION_END: ("session_id", "completed", "interrupted", "model", "platform"),
    HookName.ON_SESSION_FINALIZE: ("session_id", "platform"),
    HookName.ON_SESSION_RESET: ("session_id", "platform"),
    HookName.SUBAGENT_STOP: (
        "parent_session_id", "child_role", "child_summary", "child_status", "duration_ms",
    ),
    HookName.PRE_GATEWAY_DISPATCH: ("event", "gateway", "session_store"),
    HookName.TRANSFORM_TOOL_RESULT: (*_CALL, "result"),
    HookName.TRANSFORM_TERMINAL_OUTPUT: ("output",),
    HookName.PRE_API_REQUEST: (*_REQUEST, "message_count", "tool_count"),
    HookName.POST_API_REQUEST: (*_REQUEST, "usage", "finish_reason", "duration_ms"),
    HookName.PRE_APPROVAL: ("tool_name", "command", "kind"),
    HookName.POST_APPROVAL: ("tool_name", "command", "kind", "answer"),
}  # fmt: skip
"""Keyword arguments of every hook."""

ALIASES = {"params": "args"}
"""Names that some documents use for an argument."""

VETOES = frozenset({HookName.PRE_TOOL_CALL})
"""Hooks that may forbid what is about to happen. One that fails forbids it too."""

ALLOWING = ("", "allow", "approve", "continue")
"""Words of an answer that forbid nothing."""

MOST_TEXT = 50_000
"""Characters of context or of a reason that a hook can give."""

CHAINED = {
    HookName.TRANSFORM_TOOL_RESULT: "result",
    HookName.TRANSFORM_TERMINAL_OUTPUT: "output",
}
"""Hooks that change a text, by the argument that carries it from one to the next."""


def event_named(name: str) -> HookName:
    """Raises `ValueError` with a line that helps."""
    try:
        return HookName(name)
    except ValueError:
        close = get_close_matches(str(name), list(HookName), n=1)
        guess = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(HookName)}"
        raise ValueError(f"there is no hook {str(name)!r}{guess}") from None


def deviation(name: HookName, details: Mapping[str, Any]) -> str:
    """How the arguments of a call differ from the table; "" when they do not."""
    expected = set(ARGUMENTS[name])
    missing, unknown = expected - details.keys(), details.keys() - expected
    parts = [
        f"{what}: {', '.join(sorted(names))}"
        for what, names in (("missing", missing), ("not in the table", unknown))
        if names
    ]
    return "; ".join(parts)


def block(message: str) -> dict[str, str]:
    """The answer that forbids a call."""
    return {"action": "block", "message": cut_middle(message, MOST_TEXT)}


def words_of(answer: Any) -> list[Any]:
    """What an answer says of the call: `block`, `allow`, or whatever else; nothing as a rule."""
    if not isinstance(answer, Mapping):
        return []
    return [answer[key] for key in ("action", "decision") if answer.get(key) is not None]


def verdict(answer: Any) -> dict[str, str] | None:
    """The `block` that an answer at an event of `VETOES` comes to; None when it forbids nothing.
    A word that is not known may mean `deny`: it forbids too."""
    if all(word in ALLOWING for word in words_of(answer)):
        return None
    reasons = (answer.get(key) for key in ("message", "reason"))
    return block(next((each for each in reasons if each and isinstance(each, str)), "by a hook"))


def shortened(answer: Any) -> Any:
    """An answer to `pre_llm_call` that does not fill the model's window."""
    if isinstance(answer, dict) and isinstance(answer.get("context"), str):
        return {**answer, "context": cut_middle(answer["context"], MOST_TEXT)}
    return cut_middle(answer, MOST_TEXT) if isinstance(answer, str) else answer

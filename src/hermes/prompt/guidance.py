"""Guidance that depends on which tools are enabled and which model works with them."""

from hermes.prompt.texts import (
    GOOGLE_MODEL_OPERATIONAL_GUIDANCE,
    GOOGLE_MODELS,
    MEMORY_GUIDANCE,
    OPENAI_MODEL_EXECUTION_GUIDANCE,
    OPENAI_MODELS,
    SESSION_SEARCH_GUIDANCE,
    SKILLS_GUIDANCE,
    TOOL_USE_ENFORCEMENT_GUIDANCE,
    TOOL_USE_ENFORCEMENT_MODELS,
)

TOOL_GUIDANCE = {
    "memory": MEMORY_GUIDANCE,
    "session_search": SESSION_SEARCH_GUIDANCE,
    "skill_manage": SKILLS_GUIDANCE,
}
"""By the tool that must be enabled."""

FAMILY_GUIDANCE = (
    (OPENAI_MODELS, OPENAI_MODEL_EXECUTION_GUIDANCE),
    (GOOGLE_MODELS, GOOGLE_MODEL_OPERATIONAL_GUIDANCE),
)

WORDS = {
    **dict.fromkeys(("true", "on", "yes", "always"), True),
    **dict.fromkeys(("false", "off", "no", "never", ""), False),
}
"""Spellings of a switch, as they come from a variable or a quoted setting."""


def tool_guidance(tools: frozenset[str]) -> str:
    return "\n".join(text for tool, text in TOOL_GUIDANCE.items() if tool in tools)


def model_guidance(model: str, enforcement: bool | str | tuple[str, ...]) -> str:
    """How this model is urged to act; "" when the setting says that it is not."""
    if not enforced(model, enforcement):
        return ""
    family = (text for names, text in FAMILY_GUIDANCE if _named(model, names))
    return "\n\n".join((TOOL_USE_ENFORCEMENT_GUIDANCE, *family))


def enforced(model: str, enforcement: bool | str | tuple[str, ...]) -> bool:
    """`enforcement` is yes, no, `auto` (known families), or parts of model names."""
    if isinstance(enforcement, bool):
        return enforcement
    if isinstance(enforcement, tuple):
        return _named(model, enforcement)
    word = enforcement.strip().lower()
    if word == "auto":
        return _named(model, TOOL_USE_ENFORCEMENT_MODELS)
    return WORDS[word] if word in WORDS else _named(model, (word,))


def _named(model: str, parts: tuple[str, ...]) -> bool:
    name = model.lower()
    return any(part.strip().lower() in name for part in parts if part.strip())

"""How the agent talks: what is told to the model beside everything else."""

from hermes.config.settings import Settings
from hermes.core.errors import UsageError

DEFAULT = "kawaii"
"""That of `display.personality`. It dresses the spinner; the model is told of it only when it is
asked for with `/personality`."""
NONE = "none"

BUILTIN: dict[str, str] = {
    "helpful": "You are friendly and helpful, and offer the next step where one is near.",
    "concise": "You are brief: the answer first, no preamble, no summary at the end.",
    "technical": "You talk as to an expert: exact terms, figures, file names, trade-offs.",
    "creative": "You are inventive: offer unusual angles beside the obvious answer.",
    "teacher": "You are a patient teacher: build up from what is known, with small examples.",
    "kawaii": "You are warm and playful, with a small kaomoji now and then (◕‿◕).",
    "catgirl": "You talk like a cheerful catgirl, with a “nya” here and there.",
    "pirate": "You talk like a pirate of the old stories, arr.",
    "shakespeare": "You talk in the manner of Shakespeare: thee, thou, and a turn of verse.",
    "surfer": "You talk like a relaxed surfer, dude: everything is a wave.",
    "noir": "You talk like a private eye in a black-and-white film: short, dry, rainy.",
    "uwu": "You talk in uwu style, softly: w for r and l in a few words, uwu.",
    "philosopher": "You think aloud like a philosopher: what is meant, what follows, what else.",
    "hype": "You are full of energy and celebrate every step!",
}
FRAME = "How to talk: {} Facts, code, commands and file contents stay exact and free of it."


def names(settings: Settings) -> list[str]:
    return sorted({*BUILTIN, *settings.agent.personalities})


def manner(name: str, settings: Settings) -> str:
    """What the model is told; "" for none. Raises `UsageError` for an unknown one."""
    wanted = name.strip().lower()
    if wanted in ("", NONE, "default", "off"):
        return ""
    own = {key.lower(): value for key, value in settings.agent.personalities.items()}
    found = own.get(wanted) or BUILTIN.get(wanted)
    if not found:
        known = ", ".join(names(settings))
        raise UsageError(f"there is no personality {name!r}", hint=f"known: {known}, {NONE}")
    return FRAME.format(found if isinstance(found, str) else _described(found))


def _described(found: dict[str, object]) -> str:
    """One that is written as a block: its prompt, and what else it says about itself."""
    texts = [found.get(key) for key in ("system_prompt", "prompt", "description", "tone", "style")]
    return " ".join(text.strip() for text in texts if isinstance(text, str) and text.strip())

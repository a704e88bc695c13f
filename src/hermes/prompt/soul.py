"""SOUL.md: who the agent is, in the words of its owner."""

from pathlib import Path

from hermes.prompt.tree import LocalTree
from hermes.prompt.vetting import Redact, vetted
from hermes.util.paths import inside

SOUL = "SOUL.md"


def load_soul(home: Path, redact: Redact = str) -> str:
    """The vetted text of SOUL.md in the home folder; "" when it is missing, empty or unreadable."""
    return vetted(SOUL, LocalTree().read(inside(str(home), SOUL)) or "", redact)

"""What the agent may run, read, write and fetch, and which text must not leave it.

Command analysis, path and URL guards, redaction of secrets, and the scan for prompt injection.
Importing this package is cheap: the parser and the rule tables load with the first command.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.core.tool import Concern
    from hermes.security.paths import Guard


def examine_command(command: str, guard: "Guard", folder: str) -> list["Concern"]:
    """Return each reason to ask before running `command` in `folder`, refusals first."""
    from hermes.security import commands  # loads tree-sitter and the rule tables

    return commands.examine_command(command, guard, folder)


def only_looks(command: str) -> bool:
    """Return whether every program of `command` only reads."""
    from hermes.security import read_only  # loads tree-sitter and the rule tables

    return read_only.only_looks(command)


def one_concern(concerns: list["Concern"]) -> "Concern | None":
    """Merge concerns into one question: the refusal alone, or all classes that need approval."""
    from hermes.core.tool import Concern  # not needed by importers of the redactor alone

    if not concerns:
        return None
    first, *rest = concerns
    if first.refused or not rest:
        return first
    reason = "; ".join(dict.fromkeys(concern.reason for concern in concerns))
    return Concern(first.kind, first.subject, reason, also=tuple(concern.kind for concern in rest))

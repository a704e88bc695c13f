"""What the agent may run, read, write and fetch, and which text must not leave it.

Command analysis, path and URL guards, and redaction of secrets; the scan for prompt injection is
`hermes.security.injection`. Importing this package is cheap: the names below load with their first
use, the parser and the rule tables with the first command.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.core.tool import Concern
    from hermes.security.commands import CommandVerdict, Examination, examine, judge_command
    from hermes.security.danger.catalog import BROKEN_RULES, TEXT_RULES, danger_classes, rules_for
    from hermes.security.danger.code import record_side_effects
    from hermes.security.danger.context import ShellContext
    from hermes.security.danger.secrets import SECRET_FILES, SECRET_NAME, SECRET_PLACES
    from hermes.security.paths import (
        CREDENTIAL_STORES, OWN_FILES, STARTUP_FILES, SYSTEM_CREDENTIALS, PathGuard, is_below,
    )
    from hermes.security.redaction import REDACTION_MARK, SECRET_SHAPES, Redactor
    from hermes.security.shell.model import CommandTooComplex, Invocation
    from hermes.security.shell.wrappers import unfold_command
    from hermes.security.urls import (
        Blocklist, GuardedTransport, UrlGuard, parse_allowed_hosts, printable_url,
    )
    # fmt: on
    # isort: on

__all__ = [
    "BROKEN_RULES", "CREDENTIAL_STORES", "OWN_FILES", "REDACTION_MARK", "SECRET_FILES",
    "SECRET_NAME", "SECRET_PLACES", "SECRET_SHAPES", "STARTUP_FILES", "SYSTEM_CREDENTIALS",
    "TEXT_RULES", "Blocklist", "CommandTooComplex", "CommandVerdict", "Examination",
    "GuardedTransport", "Invocation", "PathGuard", "Redactor", "ShellContext", "UrlGuard",
    "danger_classes", "examine", "examine_command", "is_below", "is_read_only", "judge_command",
    "merge_concerns", "parse_allowed_hosts", "printable_url", "record_side_effects", "rules_for",
    "unfold_command",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)


def examine_command(command: str, guard: "PathGuard", folder: str) -> list["Concern"]:
    """Return each reason to ask before running `command` in `folder`, refusals first."""
    from hermes.security import commands  # loads tree-sitter and the rule tables

    return list(commands.examine(command, guard, folder).concerns)


def is_read_only(command: str) -> bool:
    """Return whether every program of `command` only reads or prints."""
    from hermes.security import read_only  # loads tree-sitter

    return read_only.is_read_only(command)


def merge_concerns(concerns: list["Concern"]) -> "Concern | None":
    """Merge concerns into one question: the refusal alone, or all classes that need approval."""
    from hermes.core.tool import Concern  # not needed by importers of the redactor alone

    if not concerns:
        return None
    first, *rest = concerns
    if first.refused or not rest:
        return first
    reason = "; ".join(dict.fromkeys(concern.reason for concern in concerns))
    return Concern(first.kind, first.subject, reason, also=tuple(concern.kind for concern in rest))

"""What the agent may run, read, write and fetch, and which text must not leave it.

Command analysis, path and URL guards, and redaction of secrets; the scan for prompt injection is
`hermes.security.injection`. Importing this package is cheap: the names below load with their first
use, the parser and the rule tables with the first command.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from collections.abc import Mapping

    # isort: off
    # fmt: off
    from hermes.core.tool import Concern
    from hermes.security.allow_rules import (
        class_rule, concern_classes, covering_rules, describe_rule, effect_class, offered_scopes,
        rules_for_scope,
    )
    from hermes.security.commands import (
        CommandVerdict, Examination, ShellState, examine, examine_input, judge_command, shell_after,
    )
    from hermes.security.danger.catalog import BROKEN_RULES, TEXT_RULES, danger_classes, rules_for
    from hermes.security.danger.code import record_side_effects
    from hermes.security.danger.context import ShellContext
    from hermes.security.danger.secrets import SECRET_FILES, SECRET_NAME, SECRET_PLACES
    from hermes.security.egress import (
        UNTRUSTED_SOURCES, EgressPolicy, EgressRules, Exposure, Flow, host_of, is_loopback,
        sends_to_allowed,
    )
    from hermes.security.paths import (
        CREDENTIAL_STORES, OWN_FILES, OWN_WRITABLE, PROGRAM_FOLDERS, RUNS_LATER, RUNS_LATER_HOME,
        RUNS_LATER_PATTERN, STARTUP_FILES, SYSTEM_CREDENTIALS, PathGuard, is_below,
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
    "BROKEN_RULES", "CREDENTIAL_STORES", "OWN_FILES", "OWN_WRITABLE", "PROGRAM_FOLDERS",
    "REDACTION_MARK", "RUNS_LATER", "RUNS_LATER_HOME", "RUNS_LATER_PATTERN", "SECRET_FILES",
    "SECRET_NAME", "SECRET_PLACES", "SECRET_SHAPES", "STARTUP_FILES", "SYSTEM_CREDENTIALS",
    "TEXT_RULES", "UNTRUSTED_SOURCES", "Blocklist", "CommandTooComplex", "CommandVerdict",
    "EgressPolicy", "EgressRules", "Examination", "Exposure", "Flow", "GuardedTransport",
    "Invocation", "PathGuard", "Redactor", "ShellContext", "ShellState", "UrlGuard", "class_rule",
    "concern_classes", "covering_rules", "danger_classes", "describe_rule", "effect_class",
    "examine", "examine_command", "examine_input", "host_of", "is_below", "is_loopback",
    "is_read_only", "judge_command", "merge_concerns", "offered_scopes", "parse_allowed_hosts",
    "printable_url", "record_side_effects", "rules_for", "rules_for_scope",
    "sends_to_allowed", "shell_after", "unfold_command",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)


def examine_command(
    command: str, guard: "PathGuard", folder: str, variables: "Mapping[str, str] | None" = None
) -> list["Concern"]:
    """Return each reason to ask before running `command` in `folder`, refusals first.

    `variables` are those of the shell that would run it.
    """
    from hermes.security import commands  # loads tree-sitter and the rule tables

    return list(commands.examine(command, guard, folder, variables).concerns)


def is_read_only(command: str) -> bool:
    """Return whether every program of `command` only reads or prints."""
    from hermes.security import read_only  # loads tree-sitter

    return read_only.is_read_only(command)


def merge_concerns(concerns: list["Concern"]) -> "Concern | None":
    """Merge concerns into one question: the refusal alone, or all classes that need approval."""
    import msgspec  # not needed by importers of one name

    if not concerns:
        return None
    first, *rest = sorted(concerns, key=lambda concern: not concern.refused)
    if first.refused or not rest:
        return first
    reason = "; ".join(dict.fromkeys(concern.reason for concern in concerns))
    farthest = max((each.reach for each in concerns), key=("folder", "elsewhere", "unknown").index)
    also = [kind for each in (first, *rest) for kind in (each.kind, *each.also)][1:]
    return msgspec.structs.replace(
        first,
        reason=reason,
        also=tuple(dict.fromkeys(also)),
        destructive=any(each.destructive for each in concerns),
        once_only=any(each.once_only for each in concerns),
        reach=farthest,
    )

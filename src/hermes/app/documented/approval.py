"""`tools.approval`: whether a command is dangerous."""

import re
from pathlib import Path

from hermes.config.home import current_home
from hermes.security import PathGuard, examine_command
from hermes.security.danger.catalog import BROKEN_RULES, TEXT_RULES

_FLAGS = {re.IGNORECASE: "i", re.DOTALL: "s", re.MULTILINE: "m", re.VERBOSE: "x"}


def detect_dangerous_command(command: str) -> tuple[bool, str | None, str | None]:
    """Whether a person must consent before it runs here, the class of danger (what
    `command_allowlist` names) and the reason in words; (False, None, None) when nothing speaks
    against it."""
    home, folder = current_home(), Path.cwd()
    own = tuple(dict.fromkeys((home.root, home.default_root)))
    found = examine_command(command, PathGuard(Path.home(), (folder,), own), str(folder))
    return (True, found[0].kind, found[0].reason) if found else (False, None, None)


def _with_flags(pattern: re.Pattern[str]) -> str:
    flags = "".join(letter for flag, letter in _FLAGS.items() if pattern.flags & flag)
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


DANGEROUS_PATTERNS: list[tuple[str, str]] = [
    (_with_flags(rule.pattern), rule.reason) for rule in (*TEXT_RULES, *BROKEN_RULES)
]
"""Regular expressions and what they mean. These are the coarse rules on text alone: most of what
`detect_dangerous_command` knows comes from the syntax of the command."""

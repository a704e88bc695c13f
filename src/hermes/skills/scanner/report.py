"""What a scan says."""

from enum import StrEnum
from typing import Final, Literal

import msgspec

Severity = Literal["low", "medium", "high", "critical"]
Verdict = Literal["safe", "caution", "dangerous"]

SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
"""From what is only worth knowing to what no honest skill does."""


class Category(StrEnum):
    EXFILTRATION = "exfiltration"
    PROMPT_INJECTION = "prompt_injection"
    DESTRUCTIVE = "destructive"
    SHELL_INJECTION = "shell_injection"
    OBFUSCATION = "obfuscation"
    PERSISTENCE = "persistence"
    PATH_TRAVERSAL = "path_traversal"
    HIDDEN_CHARACTERS = "hidden_characters"
    PRIVILEGE_ESCALATION = "privilege_escalation"
    CREDENTIAL_ACCESS = "credential_access"
    BACKDOOR = "backdoor"
    CRYPTO_MINING = "crypto_mining"
    SUPPLY_CHAIN = "supply_chain"
    SECRETS = "secrets"
    """Keys and passwords written into the skill itself."""
    BINARY = "binary"
    """Files that cannot be looked into: programs, archives, compiled code, far too much text."""


class Finding(msgspec.Struct, frozen=True):
    rule: str
    category: Category
    severity: Severity
    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    text: str
    """That line, at most 120 characters, without secrets and without characters nobody sees."""
    why: str


class Report(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]
    """The gravest first, then by file and line."""
    verdict: Verdict


def verdict_of(findings: tuple[Finding, ...]) -> Verdict:
    """Low findings are worth knowing and change nothing."""
    worst = max((SEVERITIES.index(finding.severity) for finding in findings), default=0)
    if worst == 0:
        return "safe"
    return "dangerous" if SEVERITIES[worst] == "critical" else "caution"

"""What a scan says."""

import re
from bisect import bisect_right
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from hermes.util.text import many

Severity = Literal["low", "medium", "high", "critical"]
Verdict = Literal["safe", "caution", "dangerous"]

SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
"""From what is only worth knowing to what no honest skill does."""


class FindingCategory(StrEnum):
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


class ScanFinding(msgspec.Struct, frozen=True):
    rule: str
    category: FindingCategory
    severity: Severity
    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    text: str
    """That line, at most 120 characters, without secrets and without characters nobody sees."""
    why: str


class ScanReport(msgspec.Struct, frozen=True):
    findings: tuple[ScanFinding, ...]
    """The gravest first, then by file and line."""
    verdict: Verdict


def verdict_of(findings: tuple[ScanFinding, ...]) -> Verdict:
    """Low findings are worth knowing and change nothing."""
    worst = max((SEVERITIES.index(finding.severity) for finding in findings), default=0)
    if worst == 0:
        return "safe"
    return "dangerous" if SEVERITIES[worst] == "critical" else "caution"


# A rule, and a place where it fits.


class ScanRule(msgspec.Struct, frozen=True):
    id: str
    category: FindingCategory
    severity: Severity
    why: str


class RuleHit(NamedTuple):
    rule: ScanRule
    line: int = 0
    """From 0, inside the text that was looked at."""


def is_at_least(hit: RuleHit, severity: Severity) -> bool:
    return SEVERITIES.index(hit.rule.severity) >= SEVERITIES.index(severity)


def cap_severity(rule: ScanRule, most: Severity) -> ScanRule:
    """`rule` with a severity of `most` at most."""
    severity = min(rule.severity, most, key=SEVERITIES.index)
    return msgspec.structs.replace(rule, severity=severity)


# How far the place a skill comes from is trusted, and what that means for its findings.

TRUSTED_REPOS: Final = frozenset({"openai/skills", "anthropics/skills"})

_FROM_GITHUB: Final = frozenset({"github", "skills-sh"})
"""Sources whose identifiers are `owner/repository/path` on GitHub."""
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
"""No blanks, no escapes, no letters of other scripts, no `..`, no `@branch`: a branch may hold the
commits of a stranger's fork."""


class SourceTrust(StrEnum):
    BUILTIN = "builtin"
    """Comes with Hermes."""
    OFFICIAL = "official"
    """The optional skills of Hermes."""
    TRUSTED = "trusted"
    """One of `TRUSTED_REPOS`."""
    COMMUNITY = "community"
    """Anything else."""


class InstallDecision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    """One sentence for the user."""
    asks: bool = False
    """Not allowed, but it would be if the user insisted (`--force`)."""


def trust_for(source: str, identifier: str) -> SourceTrust:
    """`source` is the kind of place (`builtin`, `official`, `github`, `skills-sh`, …), said by the
    code that fetched the skill, never by the skill or its index. `identifier` is
    `owner/repository/path`, also with `skills-sh/` before it. Anything spelled in an unusual way
    (capitals too) is community."""
    if source in (SourceTrust.BUILTIN, SourceTrust.OFFICIAL):
        return SourceTrust(source)
    if source not in _FROM_GITHUB:
        return SourceTrust.COMMUNITY
    segments = identifier.removeprefix("skills-sh/").split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return SourceTrust.COMMUNITY
    return SourceTrust.TRUSTED if "/".join(segments[:2]) in TRUSTED_REPOS else SourceTrust.COMMUNITY


def decide_install(report: ScanReport, trust: SourceTrust, force: bool) -> InstallDecision:
    """Whether a skill may be installed. What is dangerous stays out, whatever `force` says."""
    found = many(len(report.findings), "finding")
    if trust in (SourceTrust.BUILTIN, SourceTrust.OFFICIAL):
        return InstallDecision(True, f"{trust}: installed with {found}")
    if report.verdict == "dangerous":
        return InstallDecision(
            False, f"{trust}: the scan found it dangerous ({_worst_finding(report)})"
        )
    if report.verdict == "safe" or trust is SourceTrust.TRUSTED:
        return InstallDecision(True, f"{trust}: the scan found it {report.verdict} ({found})")
    if force:
        return InstallDecision(True, f"{trust}: installed in spite of {found}")
    return InstallDecision(
        False, f"{trust}: the scan advises caution ({_worst_finding(report)})", asks=True
    )


def _worst_finding(report: ScanReport) -> str:
    first = report.findings[0]
    place = f"{first.file}:{first.line}" if first.line else first.file
    return f"{place}: {first.why}"


# The line of a place in a text, without counting from the beginning every time.


class LineIndex:
    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """From 0."""
        return bisect_right(self._starts, place)

"""The result of a scan, the rules behind it, and the decision whether to install."""

import re
from enum import StrEnum
from typing import Final, Literal

import msgspec

from hermes.util.text import many

Severity = Literal["low", "medium", "high", "critical"]
Verdict = Literal["safe", "caution", "dangerous"]

SEVERITIES: Final[tuple[Severity, ...]] = ("low", "medium", "high", "critical")
"""From mere information to what no honest skill does."""


class FindingCategory(StrEnum):
    """What kind of danger a finding is."""

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
    SECRETS = "secrets"  #: Keys and passwords in the skill itself.
    BINARY = "binary"
    """Files that cannot be scanned: programs, archives, compiled code, too much text."""


class ScanFinding(msgspec.Struct, frozen=True):
    """One finding in a file."""

    rule: str
    category: FindingCategory
    severity: Severity
    file: str
    line: int  #: From 1; 0 for the whole file.
    text: str  #: The line, at most 120 characters, without secrets and invisible characters.
    why: str


class ScanReport(msgspec.Struct, frozen=True):
    """All findings of a skill."""

    findings: tuple[ScanFinding, ...]  #: Ordered by severity, then by file and line.
    verdict: Verdict


def verdict_of(findings: tuple[ScanFinding, ...]) -> Verdict:
    """Return the verdict. Findings of low severity are information and do not change it."""
    worst = max((SEVERITIES.index(finding.severity) for finding in findings), default=0)
    if worst == 0:
        return "safe"
    return "dangerous" if SEVERITIES[worst] == "critical" else "caution"


# Trust and decisions

TRUSTED_REPOS: Final = frozenset({"openai/skills", "anthropics/skills"})

_FROM_GITHUB: Final = frozenset({"github", "skills-sh"})
"""Sources whose identifiers are `owner/repository/path` at GitHub."""
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
"""Excludes spaces, escapes, letters of other scripts, `..` and `@branch`: a branch may contain the
commits of a stranger's fork."""


class SourceTrust(StrEnum):
    """How far the source of a skill is trusted."""

    BUILTIN = "builtin"  #: Comes with Hermes.
    OFFICIAL = "official"  #: The optional skills of Hermes.
    TRUSTED = "trusted"  #: One of `TRUSTED_REPOS`.
    COMMUNITY = "community"  #: Everything else.


class InstallDecision(msgspec.Struct, frozen=True):
    """Whether a skill may be installed."""

    allowed: bool
    reason: str  #: One sentence for the user.
    asks: bool = False  #: Not allowed now, but allowed if the user insists (`--force`).


def trust_for(source: str, identifier: str) -> SourceTrust:
    """Return the trust in a place.

    `source` is the kind of place (`builtin`, `official`, `github`, `skills-sh`, …). It comes from
    the code that fetched the skill, never from the skill or its index. `identifier` is
    `owner/repository/path`, optionally with the prefix `skills-sh/`. Unusual spellings, including
    capitals, count as community.
    """
    if source in (SourceTrust.BUILTIN, SourceTrust.OFFICIAL):
        return SourceTrust(source)
    if source not in _FROM_GITHUB:
        return SourceTrust.COMMUNITY
    segments = identifier.removeprefix("skills-sh/").split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return SourceTrust.COMMUNITY
    return SourceTrust.TRUSTED if "/".join(segments[:2]) in TRUSTED_REPOS else SourceTrust.COMMUNITY


def decide_install(report: ScanReport, trust: SourceTrust, force: bool) -> InstallDecision:
    """Decide whether a skill may be installed. A dangerous one may not, even with `force`."""
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

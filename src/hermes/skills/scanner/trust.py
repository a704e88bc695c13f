"""How far the place a skill comes from is trusted, and what that means for its findings."""

import re
from enum import StrEnum
from typing import Final

import msgspec

from hermes.skills.scanner.report import Report
from hermes.util.text import many

TRUSTED_REPOS: Final = frozenset({"openai/skills", "anthropics/skills"})

_FROM_GITHUB: Final = frozenset({"github", "skills-sh"})
"""Sources whose identifiers are `owner/repository/path` on GitHub."""
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
"""No blanks, no escapes, no letters of other scripts, no `..`, no `@branch`: a branch may hold the
commits of a stranger's fork."""


class Trust(StrEnum):
    BUILTIN = "builtin"
    """Comes with Hermes."""
    OFFICIAL = "official"
    """The optional skills of Hermes."""
    TRUSTED = "trusted"
    """One of `TRUSTED_REPOS`."""
    COMMUNITY = "community"
    """Anything else."""


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    """One sentence for the user."""
    asks: bool = False
    """Not allowed, but it would be if the user insisted (`--force`)."""


def trust_of(source: str, identifier: str) -> Trust:
    """`source` is the kind of place (`builtin`, `official`, `github`, `skills-sh`, …), said by the
    code that fetched the skill, never by the skill or its index. `identifier` is
    `owner/repository/path`, also with `skills-sh/` before it. Anything spelled in an unusual way
    (capitals too) is community."""
    if source in (Trust.BUILTIN, Trust.OFFICIAL):
        return Trust(source)
    if source not in _FROM_GITHUB:
        return Trust.COMMUNITY
    segments = identifier.removeprefix("skills-sh/").split("/")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return Trust.COMMUNITY
    return Trust.TRUSTED if "/".join(segments[:2]) in TRUSTED_REPOS else Trust.COMMUNITY


def decide(report: Report, trust: Trust, force: bool) -> Decision:
    """Whether a skill may be installed. What is dangerous stays out, whatever `force` says."""
    found = many(len(report.findings), "finding")
    if trust in (Trust.BUILTIN, Trust.OFFICIAL):
        return Decision(True, f"{trust}: installed with {found}")
    if report.verdict == "dangerous":
        return Decision(False, f"{trust}: the scan found it dangerous ({_gravest(report)})")
    if report.verdict == "safe" or trust is Trust.TRUSTED:
        return Decision(True, f"{trust}: the scan found it {report.verdict} ({found})")
    if force:
        return Decision(True, f"{trust}: installed in spite of {found}")
    return Decision(False, f"{trust}: the scan advises caution ({_gravest(report)})", asks=True)


def _gravest(report: Report) -> str:
    first = report.findings[0]
    place = f"{first.file}:{first.line}" if first.line else first.file
    return f"{place}: {first.why}"

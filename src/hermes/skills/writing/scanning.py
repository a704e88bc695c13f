"""The scanner as the `Check` of what the agent writes."""

from collections.abc import Mapping

from hermes.skills.scanner import scan_files

REFUSED = frozenset({"high", "critical"})


def scanned(files: Mapping[str, bytes]) -> list[str]:
    """What speaks against keeping the files. A reason holds the line itself instead of its number,
    so that lines which only moved are known again."""
    findings = scan_files(files).findings
    return [f"{each.why} ({each.text})" for each in findings if each.severity in REFUSED]

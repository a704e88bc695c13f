"""Trust in sources, and the decision to install."""

import re
from pathlib import Path

import pytest

from hermes.skills.scanner import rules
from hermes.skills.scanner.report import (
    FindingCategory,
    ScanFinding,
    ScanReport,
    SourceTrust,
    decide_install,
    trust_for,
)
from tests.cases import cases

CASES = cases(__file__)

SAFE = ScanReport((), "safe")


def report(verdict, severity):
    finding = ScanFinding(
        "r", FindingCategory.OBFUSCATION, severity, "a.sh", 3, "x", "hides something"
    )
    return ScanReport((finding,), verdict)


CAUTION, DANGEROUS = report("caution", "high"), report("dangerous", "critical")


@pytest.mark.parametrize(("source", "identifier", "trust"), CASES["trust"])
def test_trust_comes_from_the_place(source, identifier, trust):
    assert trust_for(source, identifier) is SourceTrust(trust)


@pytest.mark.parametrize("identifier", CASES["lookalike identifiers are not trusted"])
def test_lookalike_identifiers_are_not_trusted(identifier):
    assert trust_for("github", identifier) is SourceTrust.COMMUNITY
    assert trust_for("skills-sh", identifier) is SourceTrust.COMMUNITY


@pytest.mark.parametrize("source", ["tap", "git", "folder", "well-known", "", "trusted", "GitHub"])
def test_other_sources_prove_nothing(source):
    assert trust_for(source, "openai/skills/k8s") is SourceTrust.COMMUNITY


@pytest.mark.parametrize(
    ("trust", "found", "force", "allowed", "asks"),
    [
        (SourceTrust.BUILTIN, DANGEROUS, False, True, False),
        (SourceTrust.OFFICIAL, DANGEROUS, False, True, False),
        (SourceTrust.TRUSTED, SAFE, False, True, False),
        (SourceTrust.TRUSTED, CAUTION, False, True, False),
        (SourceTrust.TRUSTED, DANGEROUS, False, False, False),
        (SourceTrust.TRUSTED, DANGEROUS, True, False, False),
        (SourceTrust.COMMUNITY, SAFE, False, True, False),
        (SourceTrust.COMMUNITY, CAUTION, False, False, True),
        (SourceTrust.COMMUNITY, CAUTION, True, True, False),
        (SourceTrust.COMMUNITY, DANGEROUS, False, False, False),
        (SourceTrust.COMMUNITY, DANGEROUS, True, False, False),
    ],
)
def test_install_decisions(trust, found, force, allowed, asks):
    decision = decide_install(found, trust, force)
    assert (decision.allowed, decision.asks) == (allowed, asks)
    assert decision.reason.startswith(f"{trust}: ")


def test_the_reason_names_the_place():
    assert "a.sh:3: hides something" in decide_install(CAUTION, SourceTrust.COMMUNITY, False).reason


def test_every_rule_that_the_code_names_is_in_the_table():
    used: set[str] = set()
    for file in Path(rules.__file__).parent.glob("*.py"):
        text = file.read_text()
        used |= set(re.findall(r'RULES\["(\w+)"', text))
        if file.name in ("shell.py", "python.py"):
            used |= set(re.findall(r'(?:yield|return|else) "(\w+)"', text))
    assert used - rules.RULES.keys() == set()
    assert {*rules.TABLES.kinds.values(), *rules.TABLES.signatures} <= rules.RULES.keys()
    named = {*rules.TABLES.injections.values(), *rules.TABLES.reasons.values()} - {""}
    assert named <= rules.RULES.keys()

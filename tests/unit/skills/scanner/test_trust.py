"""Who is trusted, and what that allows."""

import pytest

from hermes.skills.scanner import Category, Finding, Report
from hermes.skills.scanner.report import Trust, decide, trust_of

SAFE = Report((), "safe")


def report(verdict, severity):
    finding = Finding("r", Category.OBFUSCATION, severity, "a.sh", 3, "x", "hides something")
    return Report((finding,), verdict)


CAUTION, DANGEROUS = report("caution", "high"), report("dangerous", "critical")


@pytest.mark.parametrize(
    ("source", "identifier", "trust"),
    [
        ("builtin", "anything", Trust.BUILTIN),
        ("official", "research/x", Trust.OFFICIAL),
        ("github", "openai/skills", Trust.TRUSTED),
        ("github", "openai/skills/k8s", Trust.TRUSTED),
        ("github", "anthropics/skills/document-skills/pdf", Trust.TRUSTED),
        ("skills-sh", "skills-sh/openai/skills/k8s", Trust.TRUSTED),
        ("skills-sh", "openai/skills/k8s", Trust.TRUSTED),
        ("github", "somebody/skills/k8s", Trust.COMMUNITY),
    ],
)
def test_trust_comes_from_the_place(source, identifier, trust):
    assert trust_of(source, identifier) is trust


@pytest.mark.parametrize(
    "identifier",
    [
        "OpenAI/skills",
        "openai/Skills/x",
        "openai/skills-evil/x",
        "openai/skills.evil/x",
        "openai-skills/x",
        "evil/openai/skills",
        "openai/skills/../../evil/x",
        "openai/skills/../x",
        "openai/./skills/x",
        "./openai/skills",
        "openai//skills/x",
        "/openai/skills",
        "openai/skills/",
        "openai/skills@fork",
        "openai/skills#x",
        "openai/skills?x",
        "openai/skills%2f..%2fx",
        "openai/skills\\..\\x",
        "openai/skills\n/x",
        "openai/skills\x00/x",
        " openai/skills",
        "\u043epenai/skills/x",
        "openai/sk\u0456lls",
        "openai/skill\u200bs",
        "\uff4fpenai/skills",
        "https://github.com/openai/skills",
        "skills-sh/skills-sh/openai/skills",
        "openai",
        "",
    ],
)
def test_nothing_that_only_looks_trusted_is(identifier):
    assert trust_of("github", identifier) is Trust.COMMUNITY
    assert trust_of("skills-sh", identifier) is Trust.COMMUNITY


@pytest.mark.parametrize("source", ["tap", "git", "folder", "well-known", "", "trusted", "GitHub"])
def test_other_sources_prove_nothing(source):
    assert trust_of(source, "openai/skills/k8s") is Trust.COMMUNITY


@pytest.mark.parametrize(
    ("trust", "found", "force", "allowed", "asks"),
    [
        (Trust.BUILTIN, DANGEROUS, False, True, False),
        (Trust.OFFICIAL, DANGEROUS, False, True, False),
        (Trust.TRUSTED, SAFE, False, True, False),
        (Trust.TRUSTED, CAUTION, False, True, False),
        (Trust.TRUSTED, DANGEROUS, False, False, False),
        (Trust.TRUSTED, DANGEROUS, True, False, False),
        (Trust.COMMUNITY, SAFE, False, True, False),
        (Trust.COMMUNITY, CAUTION, False, False, True),
        (Trust.COMMUNITY, CAUTION, True, True, False),
        (Trust.COMMUNITY, DANGEROUS, False, False, False),
        (Trust.COMMUNITY, DANGEROUS, True, False, False),
    ],
)
def test_what_may_be_installed(trust, found, force, allowed, asks):
    decision = decide(found, trust, force)
    assert (decision.allowed, decision.asks) == (allowed, asks)
    assert decision.reason.startswith(f"{trust}: ")


def test_the_reason_names_the_place():
    assert "a.sh:3: hides something" in decide(CAUTION, Trust.COMMUNITY, False).reason

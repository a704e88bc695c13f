"""Attacks are found in plain words and in disguise; what developers write passes."""

import tomllib
from pathlib import Path

import pytest

from hermes.security.injection import scan
from tests.unit.security.injection.disguises import DISGUISES

HERE = Path(__file__).parent
MALICIOUS = tomllib.loads((HERE / "malicious.toml").read_text("utf-8"))
HARMLESS = tomllib.loads((HERE / "harmless.toml").read_text("utf-8"))
IN_WORDS = (
    "prompt_injection",
    "deception_hide",
    "sys_prompt_override",
    "disregard_rules",
    "bypass_restrictions",
    "translate_execute",
)
"""Classes that are told in words; a disguised command is no command."""


def count(corpus):
    return sum(map(len, corpus.values()))


def test_the_corpora_are_large_enough_to_mean_something():
    assert count(MALICIOUS) >= 150
    assert count(HARMLESS) >= 150
    assert set(IN_WORDS) < set(MALICIOUS)


@pytest.mark.parametrize("name", MALICIOUS)
def test_every_attack_is_found_under_its_class(name):
    assert [text for text in MALICIOUS[name] if name not in scan(text)] == []


@pytest.mark.parametrize("kind", HARMLESS)
def test_developer_documents_are_not_blocked(kind):
    assert [(text, scan(text)) for text in HARMLESS[kind] if scan(text)] == []


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguise_hides_at_most_one_attack_in_twenty(disguise):
    texts = [text for name in IN_WORDS for text in MALICIOUS[name]]
    missed = [text for text in texts if not _said(DISGUISES[disguise](text))]
    assert len(missed) <= 0.05 * len(texts), missed


@pytest.mark.parametrize("disguise", ["capitals", "wide gaps", "a whole document", "full width"])
def test_a_disguised_command_is_found(disguise):
    texts = [text for name in ("exfil_curl", "read_secrets") for text in MALICIOUS[name]]
    missed = [text for text in texts if not _said(DISGUISES[disguise](text))]
    assert len(missed) <= 0.05 * len(texts), missed


def _said(text):
    """What was found by its words, not by the invisible characters of the disguise."""
    return [name for name in scan(text) if not name.startswith("invisible")]

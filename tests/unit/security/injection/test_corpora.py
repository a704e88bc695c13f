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
"""Classes that consist of words; a disguised command does not work."""


def count(corpus):
    return sum(map(len, corpus.values()))


def test_the_corpora_are_large_enough_to_mean_something():
    assert count(MALICIOUS) >= 150
    assert count(HARMLESS) >= 150
    assert set(IN_WORDS) < set(MALICIOUS)


def test_every_attack_is_found_under_its_class():
    texts = [(name, text) for name, some in MALICIOUS.items() for text in some]
    assert [(name, text) for name, text in texts if name not in scan(text)] == []


def test_developer_documents_are_not_blocked():
    texts = [text for some in HARMLESS.values() for text in some]
    assert [(text, scan(text)) for text in texts if scan(text)] == []


@pytest.mark.parametrize(
    ("disguise", "classes"),
    [(disguise, IN_WORDS) for disguise in DISGUISES]
    + [
        (disguise, ("exfil_curl", "read_secrets"))
        for disguise in ("capitals", "wide gaps", "a whole document", "full width")
    ],
)
def test_a_disguise_hides_at_most_one_attack_in_twenty(disguise, classes):
    texts = [text for name in classes for text in MALICIOUS[name]]
    found = {text: scan(DISGUISES[disguise](text)) for text in texts}
    # The invisible characters of the disguise itself do not count.
    missed = [text for text in texts if all(name.startswith("invisible") for name in found[text])]
    assert len(missed) <= 0.05 * len(texts), missed

"""Attacks are found in plain words and in disguise; what developers write passes."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from hermes.security.injection import scan, scanner
from hermes.security.injection.scanner import WordChain, known_words, phrase_rules
from hermes.security.injection.wording import fold
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


def test_required_words_hide_no_phrase():
    attacks = [text for name in IN_WORDS for text in MALICIOUS[name]]
    texts = [*attacks, *(change(text) for change in DISGUISES.values() for text in attacks[::7])]
    for text in texts:
        words = WordChain(fold(text), known_words())
        for rule in phrase_rules():
            found = [match.span() for match in rule.matches(words)]
            everywhere = msgspec.structs.replace(rule, parts=()).matches(words)
            assert found == [match.span() for match in everywhere], (rule, text)


def test_phrases_in_ascii_are_written_as_folded():
    phrases = [rule.phrase for rule in phrase_rules()]
    assert phrases == [fold(phrase) for phrase in phrases]


def test_developer_document_compiles_few_phrases():
    scanner._compile_phrase.cache_clear()
    scan((HERE.parents[3] / "AGENTS.md").read_text("utf-8"))
    assert scanner._compile_phrase.cache_info().currsize <= 5

"""Attacks are found, each in its own category; what people share passes."""

from collections import Counter
from functools import cache

import pytest

from hermes.skills.scanner import scan_files
from hermes.skills.scanner.report import FindingCategory
from scripts.skill_scan_report import examples

ALL = examples()
ATTACKS = [example for example in ALL if example.categories]
HARMLESS = [example for example in ALL if not example.categories]


@cache
def reports():
    """The report of every example; made by the first test that needs it, not by collection."""
    return {example.name: scan_files(example.files) for example in ALL}


def named(group, verdict):
    return [example.name for example in group if reports()[example.name].verdict == verdict]


def test_the_corpora_are_large_enough_to_mean_something():
    assert len(ATTACKS) >= 180
    assert len(HARMLESS) >= 100
    assert len(reports()) == len(ALL), "two skills have one name"
    for group in (ATTACKS, HARMLESS):
        assert sum(example.held_out for example in group) >= len(group) // 4


def test_every_category_has_attacks():
    covered = Counter(category for example in ATTACKS for category in example.categories)
    assert set(covered) == {str(category) for category in FindingCategory}


def test_nearly_every_attack_is_found():
    assert len(named(ATTACKS, "safe")) <= 0.03 * len(ATTACKS), named(ATTACKS, "safe")


def test_most_attacks_can_not_even_be_forced():
    assert len(named(ATTACKS, "dangerous")) >= 0.55 * len(ATTACKS)


def test_an_attack_is_found_for_what_it_is():
    wrong = []
    for example in ATTACKS:
        findings = [f for f in reports()[example.name].findings if f.severity != "low"]
        if findings and not example.categories & {finding.category for finding in findings}:
            wrong.append((example.name, findings))
    assert len(wrong) <= 0.02 * len(ATTACKS), wrong


def test_benign_skills_are_never_dangerous():
    assert named(HARMLESS, "dangerous") == []


def test_benign_skills_rarely_need_caution():
    assert len(named(HARMLESS, "caution")) <= 0.05 * len(HARMLESS), named(HARMLESS, "caution")


@pytest.mark.parametrize("group", [True, False], ids=["held out", "tuning"])
def test_detection_rates_stay_above_the_minimum(group):
    attacks = [example for example in ATTACKS if example.held_out is group]
    harmless = [example for example in HARMLESS if example.held_out is group]
    assert len(named(attacks, "safe")) <= 0.1 * len(attacks)
    assert len(named(harmless, "caution")) <= 0.05 * len(harmless)


def test_findings_show_a_line_and_no_secret():
    for example in ATTACKS:
        for finding in reports()[example.name].findings:
            assert len(finding.text) <= 120
            assert finding.text.isprintable()
            assert "Zk3vQ8xW1nB6yT0r" not in finding.text
            assert finding.line == 0 or finding.text or finding.rule == "no_python"

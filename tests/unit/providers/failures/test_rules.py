"""Failures as endpoints really send them, and what each one is taken for.

A case has `name`, `provider`, `kind` (the error class) and `seen` (where such a body
was found; `known wording` is one that was not looked up again).
With a `status` it is an HTTP answer (`headers`, `body`), without one an error inside an answer.
`wait` is the expected `retry_after`; `hint` and `shows` are parts of the hint and of the message.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures import body as bodies
from hermes.providers.failures.body import Complaint
from hermes.providers.failures.classify import (
    FailureRule,
    failed_in_stream,
    refused,
    rule_for,
    rule_tables,
)

NOW = 1_700_000_000.0
FILES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
CASES: list[dict[str, Any]] = [
    case for file in FILES for case in yaml.load(file.read_bytes(), yaml.CSafeLoader)
]


def body_of(case: dict[str, Any]) -> bytes:
    body = case["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def classified(case: dict[str, Any]) -> ProviderError:
    provider = case["provider"]
    if "status" not in case:
        return failed_in_stream(provider, case["body"], now=lambda: NOW)
    headers = case.get("headers", {})
    return refused(provider, case["status"], headers, body_of(case), now=lambda: NOW)


def complaint_of(case: dict[str, Any]) -> Complaint:
    if "status" not in case:
        return bodies.read_error(case["body"])
    headers = {name.lower(): value for name, value in case.get("headers", {}).items()}
    return bodies.read_body(body_of(case), headers)


def deciding_rule(case: dict[str, Any], provider: str = "") -> FailureRule:
    complaint = complaint_of(case)
    status = case.get("status", complaint.status)
    return rule_for(provider or case["provider"], status, complaint)


def is_as_expected(error: ProviderError, case: dict[str, Any]) -> bool:
    status = case.get("status")
    return (
        type(error) is getattr(errors, case["kind"])
        and error.retry_after == pytest.approx(case.get("wait"), abs=1e-6)
        and case.get("hint", "") in error.hint
        and case.get("shows", "") in str(error)
        and error.provider == case["provider"]
        and case["provider"] in str(error)
        and (status is None or (error.status == status and f"HTTP {status}" in str(error)))
    )


def test_every_failure_is_classified():
    found = [(case, classified(case)) for case in CASES]
    wrong = [(case, repr(error)) for case, error in found if not is_as_expected(error, case)]
    assert wrong == []


def test_the_table_covers_many_endpoints():
    assert len(CASES) >= 90
    assert len({case["provider"] for case in CASES}) >= 16
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert all(case["seen"] for case in CASES)


def test_no_rule_is_dead():
    used = {deciding_rule(case) for case in CASES}
    assert [rule for rule in rule_tables().rules if rule not in used] == []


def test_every_rule_for_one_provider_corrects_the_general_ones():
    def outcome(rule: FailureRule) -> tuple[object, ...]:
        return rule.error, rule.message, rule.hint

    decided = [(deciding_rule(case), deciding_rule(case, "custom:other")) for case in CASES]
    needed = {rule for rule, general in decided if outcome(rule) != outcome(general)}
    own = [rule for rule in rule_tables().rules if rule.providers]
    assert [rule for rule in own if rule not in needed] == []

"""How long an endpoint asked to wait."""

import pytest

from hermes.core import errors
from hermes.providers.failures.body import Complaint, RetryHints, parse_wait, requested_wait

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0.25", 0.25),
        ("250ms", 0.25),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("4 days 20 hours 9 minutes", 4 * 86400 + 20 * 3600 + 540),
        ("1 minute and 5 seconds", 65),
        ("1700000030", 30),
        ("1700000030500", 30.5),
        ("2023-11-14T22:14:20Z", 60),
        ("2023-11-15T00:13:30+02:00", 10),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0),
        ("-5", 0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("9" * 400, None),
        ("2099-01-01T00:00:00Z", None),
        ("5 apples", None),
    ],
)
def test_a_time_is_read_however_it_is_written(value, seconds):
    assert parse_wait(value, NOW) == pytest.approx(seconds)


def wait(kind, headers=None, **complaint):
    return requested_wait(kind, RetryHints(headers or {}, Complaint(**complaint), NOW))


def test_what_is_asked_for_outright_wins():
    headers = {"retry-after-ms": "1500", "retry-after": "2", "x-ratelimit-reset": "99"}
    assert wait(errors.RateLimited, headers) == 1.5
    del headers["retry-after-ms"]
    assert wait(errors.RateLimited, headers) == 2
    del headers["retry-after"]
    assert wait(errors.RateLimited, headers) == 99


def test_of_empty_buckets_the_last_to_fill_counts_else_the_first():
    headers = {
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-remaining-tokens": "5",
    }
    assert wait(errors.RateLimited, headers) == 1
    headers["x-ratelimit-remaining-tokens"] = "0"
    assert wait(errors.RateLimited, headers) == 360


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 1.2s. Visit", 1.2),
        ("please try again after 1 seconds", 1),
        ("Please retry in 38.7s.", 38.7),
        ("try again in 6m0s", 360),
        ("try again later", None),
        ("try again in a moment", None),
        ("try again in 5 sessions", None),
    ],
)
def test_a_wait_in_words_is_understood(text, seconds):
    assert wait(errors.RateLimited, text=text) == pytest.approx(seconds)


def test_a_spent_quota_does_not_take_a_pause_of_seconds_for_its_reset():
    headers = {"x-ratelimit-reset-requests": "1s"}
    complaint = {"text": "try again in 3s", "waits": {"retrydelay": "17s"}}
    assert wait(errors.QuotaSpent, headers, **complaint) is None
    assert wait(errors.QuotaSpent, waits={"resets_at": "1700000600"}) == 600


def test_only_errors_that_pass_with_time_have_a_wait():
    for kind in (errors.ContextOverflow, errors.CredentialRefused, errors.RequestRefused):
        assert wait(kind, {"retry-after": "7"}) is None
    for kind in (errors.ServerFault, errors.Overloaded):
        assert wait(kind, {"retry-after": "7"}) == 7

"""Who wrote a mail, and which mails get no answer."""

import pytest

from hermes.gateway.platforms.email.inbound import parse_bytes, parse_sender, screen_message

OWN = "hermes@example.org"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("From: ann@example.org", "ann@example.org"),
        ("From: Ann <Ann@Example.ORG>", "ann@example.org"),
        ('From: "owner@example.org" <eve@evil.org>', "eve@evil.org"),
        ("From: =?utf-8?q?owner=40example=2Eorg?= <eve@evil.org>", "eve@evil.org"),
        ("From: eve@evil.org (owner@example.org)", "eve@evil.org"),
        ("From: owner@example.org <eve@evil.org>", ""),
        ("From: <owner@example.org> <eve@evil.org>", ""),
        ("From: <eve@evil.org> owner@example.org", ""),
        ("From: owner@example.org, eve@evil.org", ""),
        ("From: friends: owner@example.org, eve@evil.org;", ""),
        ("From: owner@example.org\nFrom: eve@evil.org", ""),
        ("From: =?utf-8?q?owner=40example=2Eorg?=", ""),
        ("From: =?utf-8?q?owner?=@example.org", ""),
        ('From: "owner@example.org\n <eve@evil.org>"', ""),
        ("From: owner", ""),
        ("From:", ""),
        ("Sender: owner@example.org", ""),
        ("From: o\u212a@example.org", ""),  # the Kelvin sign must not become a k
        ("From: <o\u212a@example.org>", ""),
    ],
)
def test_only_a_clear_sender_is_believed(headers: str, expected: str) -> None:
    assert parse_sender(parse_bytes(f"{headers}\nTo: {OWN}\n\nhi".encode()))[0] == expected


@pytest.mark.parametrize(
    "headers",
    [
        f"From: {OWN}",
        "From: MAILER-DAEMON@example.org",
        "From: no-reply@example.org",
        "From: noreply+abc@example.org",
        "From: shop-noreply@example.org",
        "From: DoNotReply@example.org",
        "From: bounces-12@example.org",
        "From: ann@example.org\nAuto-Submitted: auto-generated",
        "From: ann@example.org\nAuto-Submitted: Auto-Replied; owner-email=x",
        "From: ann@example.org\nPrecedence: Bulk",
        "From: ann@example.org\nPrecedence: list",
        "From: ann@example.org\nList-Id: <all.example.org>",
        "From: news@example.org\nList-Unsubscribe: <https://example.org/off>",
        "From: ann@example.org\nX-Autoreply: yes",
        "From: ann@example.org\nReturn-Path: <>",
        "From: ann@example.org\nContent-Type: multipart/report; boundary=x",
    ],
)
def test_programs_and_lists_get_no_answer(headers: str) -> None:
    assert screen_message(parse_bytes(f"{headers}\n\nhi".encode()), OWN)


@pytest.mark.parametrize(
    "headers",
    [
        "From: Ann <ann@example.org>",
        "From: ann@example.org\nAuto-Submitted: no",
        "From: ann@example.org\nReturn-Path: <ann@example.org>",
        "From: norepland@example.org",
    ],
)
def test_people_get_an_answer(headers: str) -> None:
    assert screen_message(parse_bytes(f"{headers}\n\nhi".encode()), OWN) == ""

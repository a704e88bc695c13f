"""Mails made to keep us busy for hours. Without a limit the time limit of the tests ends them."""

import pytest

from hermes.gateway.platforms.email.inbound import authentication_problem as unproven
from hermes.gateway.platforms.email.inbound import (
    decode_text,
    has_too_many_parts,
    parse_bytes,
    parse_mail,
    screen_message,
    split_html,
    split_quote,
)

MANY = 200_000
PART = b"--x\r\nContent-Type: text/plain; " + b"a=b; " * 190 + b"\r\n\r\nhi\r\n"


@pytest.mark.parametrize(
    "name", [b'"' * MANY, b"a@b.c, " * MANY, b"a " * MANY, b"=?utf-8?q?a?= " * MANY]
)
def test_a_sender_without_end_is_no_clear_sender(name: bytes) -> None:
    head = parse_bytes(b"From: " + name + b"<ann@example.org>\r\n\r\n")
    assert screen_message(head, "me@example.org")


def test_a_thousand_senders_are_none() -> None:
    head = parse_bytes(b"From: ann@example.org\r\n" * 1000 + b"\r\n")
    assert screen_message(head, "me@example.org")


@pytest.mark.parametrize("subject", [b"a " * MANY, b"=?punycode?q?ab-" + b"z9" * MANY + b"?="])
def test_a_subject_without_end_is_cut(subject: bytes) -> None:
    mail = parse_mail(parse_bytes(b"From: a@b.c\r\nSubject: " + subject + b"\r\n\r\nhi"))
    assert (len(mail.subject) <= 300, mail.text) == (True, "hi")


def test_headers_of_parts_are_cut_too() -> None:
    mail = b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
    assert parse_mail(parse_bytes(mail + PART * 50 + b"--x--")).text == "hi"
    assert not has_too_many_parts(mail + PART * 50)
    assert has_too_many_parts(mail + PART * 1000)


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "undefined", "no-such"])
def test_what_is_no_charset_is_not_used(charset: str) -> None:
    assert decode_text(b"ab-z9\\n" * MANY, charset) == "ab-z9\\n" * MANY


def test_blanks_without_end_in_a_result_are_one_blank() -> None:
    head = parse_bytes(b"Authentication-Results: " + b" " * MANY + b'"\r\n\r\n')
    assert unproven(head, "a@b.c", required="auto", server="")


@pytest.mark.parametrize(
    "text",
    [
        "1" * MANY + "\n> x\n\ny",
        "_" * MANY + "x!\nFrom: a\nTo: b",
        "From: " + "a" * MANY + "\nTo: b",
    ],
)
def test_lines_without_end_are_no_heads_of_quotes(text: str) -> None:
    new, _quoted = split_quote(text)
    assert new.startswith(text[:1000])


@pytest.mark.parametrize(
    "unit",
    ["<a ", "<a b=", "<a b='", "<!--", "<", "</", "<div '&style=' ><div style='=xstyle='style='"],
)
def test_broken_html_is_read_all_the_same(unit: str) -> None:
    new, _quoted = split_html(f"<p>Hello</p>{unit * (MANY // len(unit))}")
    assert new.startswith("Hello")

"""A forged sender gets in only where nobody looks."""

import pytest

from hermes.gateway.platforms.email.inbound import (
    authentication_problem,
    parse_bytes,
    parse_results,
)

ADDRESS = "owner@example.org"
SERVER = "mx.example.net"


def verdict(*headers: str, required: object = True, server: str = SERVER) -> bool:
    text = "".join(f"Authentication-Results: {header}\n" for header in headers)
    mail = parse_bytes(f"{text}From: {ADDRESS}\n\nhi".encode())
    return not authentication_problem(mail, ADDRESS, required=required, server=server)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "header",
    [
        f"{SERVER}; dmarc=pass header.from=example.org",
        f"{SERVER} 1; spf=pass smtp.mailfrom=a@b.org; DMARC=Pass (p=reject) header.from=x",
        f"{SERVER}; dkim=pass header.d=example.org",
        f"{SERVER}; dkim=pass header.i=@example.org; dmarc=none",
        f"{SERVER}; spf=pass smtp.mailfrom=bounce@example.org",
        f"{SERVER.upper()}; dmarc=pass",
    ],
)
def test_a_proven_sender_is_believed(header: str) -> None:
    assert verdict(header)


@pytest.mark.parametrize(
    "header",
    [
        f"{SERVER}; none",
        f"{SERVER}; dmarc=fail; spf=pass smtp.mailfrom=x@example.org",
        f"{SERVER}; dmarc=temperror; dkim=pass header.d=example.org",
        f"{SERVER}; dkim=pass header.d=evil.org; spf=pass smtp.mailfrom=x@evil.org",
        f"{SERVER}; dkim=fail header.d=example.org",
        f"{SERVER}; dkim=pass header.d=notexample.org",
        f"{SERVER}; dkim=pass header.d=sub.example.org.evil.org",
        f'{SERVER}; spf=pass smtp.mailfrom="x; dmarc=pass"@evil.org',
        f"{SERVER}; spf=fail (dmarc=pass) smtp.mailfrom=x@evil.org",
        f"{SERVER}; spf=fail ((a) ; dmarc=pass) smtp.mailfrom=x@evil.org",
        f"{SERVER}; spf=pass smtp.helo=example.org",
        f"{SERVER}; arc=pass header.d=example.org",
        "mx.evil.org; dmarc=pass",
        f"{SERVER}.evil.org; dmarc=pass",
        f"x{SERVER}; dmarc=pass",
        f'"{SERVER}" (; dmarc=pass',
        "",
        ";;;===",
    ],
)
def test_whatever_is_not_proven_is_not_believed(header: str) -> None:
    assert not verdict(header)


def test_only_the_topmost_word_of_our_server_counts() -> None:
    """What is below came with the mail."""
    assert not verdict(f"{SERVER}; dmarc=fail", f"{SERVER}; dmarc=pass")
    assert verdict("mx.evil.org; dmarc=fail", f"{SERVER}; dmarc=pass")


def test_without_a_name_a_header_can_only_refuse() -> None:
    assert not verdict("anybody; dmarc=fail", required="auto", server="")
    assert verdict("anybody; dmarc=pass", required="auto", server="")
    assert verdict(required="auto", server="")


def test_auto_believes_what_our_server_says_nothing_about() -> None:
    assert verdict("mx.evil.org; dmarc=fail", required="auto")
    assert not verdict(f"{SERVER}; dmarc=fail", required="auto")


def test_it_can_be_switched_off() -> None:
    assert verdict(f"{SERVER}; dmarc=fail", required=False)


def test_results_are_read_with_their_properties() -> None:
    name, results = parse_results(
        'a.b; spf=pass smtp.mailfrom="x y"@z; dkim=pass (2048) header.d=c'
    )
    assert name == "a.b"
    assert [(each.method, each.verdict) for each in results] == [("spf", "pass"), ("dkim", "pass")]
    assert results[1].properties == {"header.d": "c"}

"""Options of the email platform, message ids and the send journal."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.sdk.platforms import AdapterContext, CredentialsRefused, SendRefused
from hermes_plugins.platforms.email.client import EmailOptions, read_options
from hermes_plugins.platforms.email.manifest import MANIFEST, EmailPlatform
from hermes_plugins.platforms.email.outbound import MailJournal, check_address

VARIABLES = {
    "EMAIL_ADDRESS": "Hermes@Example.org",
    "EMAIL_PASSWORD": "secret-word",
    "EMAIL_IMAP_HOST": "imap.example.org",
    "EMAIL_SMTP_HOST": "smtp.example.org",
}


def options(extra: dict[str, Any] | None = None, **variables: str) -> EmailOptions:
    known = VARIABLES | variables
    nowhere = Path("/nowhere")
    connection = msgspec.convert({"extra": extra or {}}, EmailPlatform)
    return read_options(
        AdapterContext(MANIFEST, known.get, None, connection, nowhere, nowhere, nowhere)
    )


def test_tls_is_the_default() -> None:
    found = options()
    assert (found.imap.port, found.imap.security) == (993, "tls")
    assert (found.smtp.port, found.smtp.security) == (587, "starttls")
    assert found.address == "hermes@example.org"
    assert options(EMAIL_SMTP_PORT="465").smtp.security == "tls"
    assert options(EMAIL_IMAP_PORT="143").imap.security == "starttls"
    assert options(EMAIL_SMTP_PORT="25").smtp.security == "starttls"


@pytest.mark.parametrize("host", ["imap.example.org", "192.168.1.2", "127.0.0.1.evil.org"])
def test_a_password_never_goes_unprotected_to_another_machine(host: str) -> None:
    with pytest.raises(CredentialsRefused, match="without TLS"):
        options({"imap_security": "plain"}, EMAIL_IMAP_HOST=host)


def test_plain_is_fine_on_this_machine() -> None:
    found = options({"imap_security": "plain"}, EMAIL_IMAP_HOST="127.0.0.1")
    assert found.imap.security == "plain"


@pytest.mark.parametrize("name", VARIABLES)
def test_missing_variable_is_named(name: str) -> None:
    with pytest.raises(CredentialsRefused, match=name):
        options(**{name: " "})


@pytest.mark.parametrize(
    "extra",
    [
        {"require_authentication": True},
        {"require_authentication": "sometimes"},
        {"imap_securty": "tls"},
        {"max_bytes": "many"},
    ],
)
def test_settings_that_cannot_be_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(CredentialsRefused) as refused:
        options(extra)
    assert "secret-word" not in str(refused.value)


@pytest.mark.parametrize("port", ["0", "-1", "many", "nan"])
def test_a_port_must_be_a_number(port: str) -> None:
    with pytest.raises(CredentialsRefused):
        options(EMAIL_IMAP_PORT=port)


@pytest.mark.parametrize(
    "address",
    ["", "ann", "ann@", "@x", "a b@x", "a@x\r\nBcc: e@e", "a@x,b@x", "<a@x>", "ä@x", "a@x>"],
)
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(SendRefused):
        check_address(address)


def test_the_journal_knows_how_far_a_mail_got(tmp_path: Path) -> None:
    journal = MailJournal(tmp_path / "outgoing")
    assert journal.stage("k") == ""
    journal.record("k", "begun")
    assert MailJournal(tmp_path / "outgoing").stage("k") == "begun"
    journal.record("k", "accepted")
    assert journal.stage("k") == "accepted"
    journal.record("k", "")
    journal.record("k", "")
    assert journal.stage("k") == ""

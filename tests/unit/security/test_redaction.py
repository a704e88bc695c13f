"""Sample secrets are put together here, so that no text of the shape of a key is in the file."""

import base64
import json
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.security import REDACTION_MARK, Redactor

ALNUM = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 4
HEX = "0123456789abcdef" * 5
DIGITS = "9081726354"


CASES = json.loads(Path(__file__).with_name("redaction.json").read_text("utf-8"))


def filled(template: str) -> str:
    """`{A9}`, `{H9}` and `{D}` stand for characters of a key, `{}` for nothing."""
    kinds = {"A": ALNUM, "H": HEX}
    text = re.sub(r"\{([AH])(\d+)\}", lambda it: kinds[it[1]][: int(it[2])], template)
    return text.replace("{D}", DIGITS).replace("{}", "")


def joined(*parts: str) -> str:
    return "".join(parts)


JWT = joined("eyJ", ALNUM[:20], ".eyJ", ALNUM[:30], ".", ALNUM[:43])
PEM_BODY = "\n".join([ALNUM[:64]] * 3)

SECRETS = {
    **{kind: filled(template) for kind, template in CASES["secrets"].items()},
    "age": joined("AGE-SECRET", "-KEY-1", ALNUM.upper()[:58]),
    "jwt": JWT,
    "rsa key": joined("-----BEGIN RSA ", "PRIVATE KEY-----\n", PEM_BODY, "\n-----END RSA ")
    + "PRIVATE KEY-----",
    "openssh key": joined("-----BEGIN OPENSSH ", "PRIVATE KEY-----\n", PEM_BODY, "\n")
    + "-----END OPENSSH PRIVATE KEY-----",
    "pgp key": joined("-----BEGIN PGP ", "PRIVATE KEY BLOCK-----\n\n", PEM_BODY, "\n-----END PGP ")
    + "PRIVATE KEY BLOCK-----",
}

HARMLESS = (
    *CASES["harmless"],
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
)

BODIES = (ALNUM[:16], HEX[:16], "correcthorse", "hunter-two", ":pw@", "ABCDEFGH1234")


def test_secrets_of_every_kind_are_removed():
    assert len(SECRETS) >= 40
    redact = Redactor().redact
    wrong = {}
    for kind, secret in SECRETS.items():
        redacted = redact(f"before {secret} after")
        rest = redacted.removesuffix(" after")
        if not (
            REDACTION_MARK in redacted
            and not any(body in redacted for body in BODIES)
            and redacted.startswith("before ")
            and (rest != redacted or kind in ("cookie", "cut key block"))
            and redact(redacted) == redacted
        ):
            wrong[kind] = redacted
    assert wrong == {}


def test_ordinary_text_is_left_alone():
    assert [line for line in HARMLESS if Redactor().redact(line) != line] == []


def test_the_stub_says_what_was_there():
    redact = Redactor().redact
    assert redact(SECRETS["openai"]) == f"sk-{REDACTION_MARK}"
    assert redact(SECRETS["anthropic"]) == f"sk-ant-{REDACTION_MARK}"
    assert redact(SECRETS["basic auth url"]) == f"https://user:{REDACTION_MARK}@example.com/path"
    assert redact(SECRETS["url parameter"]) == f"GET /x?a=1&access_token={REDACTION_MARK}&b=2"
    assert redact(SECRETS["json secret"]) == f'{{"client_secret": "{REDACTION_MARK}"}}'


KNOWN = 'pläin "va/lue" +1 ü'


@pytest.mark.parametrize(
    "spelling",
    [
        KNOWN, quote(KNOWN, safe=""), quote_plus(KNOWN), json.dumps(KNOWN),
        json.dumps(KNOWN, ensure_ascii=False), base64.b64encode(KNOWN.encode()).decode(),
        base64.b64encode(f"user:{KNOWN}".encode()).decode(),
        base64.b64encode(f"me:{KNOWN}:x".encode()).decode(),
        base64.urlsafe_b64encode(f"u:{KNOWN}".encode()).decode(),
    ],
)  # fmt: skip
def test_a_known_secret_is_found_in_every_spelling(spelling):
    redacted = Redactor([KNOWN]).redact(f"<{spelling}>")
    assert REDACTION_MARK in redacted
    assert "lue" not in redacted
    assert len(redacted) < len(REDACTION_MARK) + 16


def test_the_longer_of_two_secrets_goes_as_a_whole():
    redactor = Redactor(["abcdefgh", "abcdefghijkl"])
    assert (
        redactor.redact("x abcdefghijkl y abcdefgh z") == f"x {REDACTION_MARK} y {REDACTION_MARK} z"
    )


def test_short_values_are_not_secrets():
    assert Redactor(["true", "", " on "]).redact("true, turned on") == "true, turned on"


def test_a_value_that_is_part_of_the_mark_does_no_harm():
    redactor = Redactor(["redacted"])
    once = redactor.redact(SECRETS["openai"])
    assert redactor.redact(once) == once == f"sk-{REDACTION_MARK}"


SIGNS = ("password=", "token: ", '"', "'", "=", "&", "sk-", REDACTION_MARK, "://a:")
pieces = st.sampled_from([*SECRETS.values(), *HARMLESS[:20], *SIGNS]) | st.text(max_size=12)


@given(st.lists(pieces, max_size=8).map("".join))
def test_redacting_twice_changes_nothing_more(text):
    redactor = Redactor(["a known secret value", "hunter-two"])
    once = redactor.redact(text)
    assert redactor.redact(once) == once

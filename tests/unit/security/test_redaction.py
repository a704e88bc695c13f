"""Sample secrets are put together here, so that no text of the shape of a key is in the file."""

import base64
import bz2
import codecs
import gzip
import json
import re
import zlib
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


KEY = joined("sk-", "or-v1-", HEX[3:67])


def _dump(data: bytes, line: str, ending: str) -> str:
    """`data` as `xxd` and `hexdump -C` print it."""
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(line % (at, row.hex(" ")) + ending % shown)
    return "\n".join(lines)


def _wrapped(text: str, width: int, line_end: str = "\n") -> str:
    return line_end.join(text[at : at + width] for at in range(0, len(text), width))


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


FILE = f"# settings of the service\nNAME=service\nKEY={KEY}\nMODE=fast\n"
DISGUISES = {
    "base64 in lines of 76": base64.encodebytes(FILE.encode()).decode(),
    "base64 in lines of 40, indented": _wrapped(_b64(FILE), 40, "\r\n    "),
    "base64 twice": _b64(base64.encodebytes(FILE.encode())),
    "base64 twice after other letters": "ab" + _b64(base64.encodebytes(FILE.encode())),
    "gzip": _b64(gzip.compress(FILE.encode())),
    "gzip in lines": base64.encodebytes(gzip.compress(FILE.encode())).decode(),
    "zlib": _b64(zlib.compress(FILE.encode())),
    "bzip2": _b64(bz2.compress(FILE.encode())),
    "utf-16": _b64(FILE.encode("utf-16-le")),
    "base32": base64.b32encode(FILE.encode()).decode(),
    "base32 in lines": _wrapped(base64.b32encode(FILE.encode()).decode(), 60),
    "hex": FILE.encode().hex(),
    "hex in upper case with colons": FILE.encode().hex(":").upper(),
    "hex of base64": _b64(FILE).encode().hex(),
    "xxd": _dump(FILE.encode(), "%08x: %-48s", " %s"),
    "hexdump -C": _dump(FILE.encode(), "%08x  %-49s", "|%s|"),
    "octal escapes": "".join(f"\\{byte:03o}" for byte in KEY.encode()),
    "hex escapes": "".join(f"\\x{byte:02x}" for byte in KEY.encode()),
    "array of C": ", ".join(f"0x{byte:02x}" for byte in KEY.encode()),
    "list of numbers": str(list(KEY.encode())),
    "percent": "".join(f"%{byte:02X}" for byte in KEY.encode()),
    "quoted-printable": _wrapped("".join(f"={byte:02X}" for byte in KEY.encode()), 72, "=\n"),
    "unicode escapes": "".join(f"\\u{byte:04x}" for byte in KEY.encode()),
    "entities": "".join(f"&#{byte};" for byte in KEY.encode()),
    "hex entities": "".join(f"&#x{byte:x};" for byte in KEY.encode()),
    "reversed": KEY[::-1],
    "reversed base64": _b64(FILE)[::-1],
    "rot13": codecs.encode(KEY, "rot13"),
    "upper case": KEY.upper(),
    "full width": "".join(chr(ord(letter) + 0xFEE0) for letter in KEY),
    "letters for formulas": "".join(
        chr(0x1D5BA + ord(letter) - 97) if letter.islower() else letter for letter in KEY
    ),
    "blanks between": " ".join(KEY),
    "dashes between": "-".join(KEY),
    "one letter per line": "\n".join(KEY),
    "numbered lines": "\n".join(f"{at:4}\t{KEY[at : at + 7]}" for at in range(0, len(KEY), 7)),
    "zero width": "\u200b".join(KEY),
    "colours": "".join(f"\x1b[3{n % 8}m{letter}\x1b[0m" for n, letter in enumerate(KEY)),
    "line ends": _wrapped(KEY, 10, "\r\n"),
    "concatenation": '"' + _wrapped(KEY, 10, '" + "') + '"',
    "array of strings": json.dumps(list(KEY)),
    "last 40": KEY[-40:],
    "first 40": KEY[:40],
    "without prefix": KEY.removeprefix("sk-or-v1-"),
    "16 in the middle": f"see {KEY[25:41]} there",
}  # fmt: skip


def test_a_known_secret_is_found_in_every_disguise():
    redact = Redactor([KEY]).redact
    pieces = {KEY[at : at + 16] for at in range(len(KEY) - 15)}
    wrong = {}
    for kind, disguised in DISGUISES.items():
        redacted = redact(f"before the text\n{disguised}\nafter the text\n")
        squeezed = "".join(disguised.split())
        windows = {squeezed[at : at + 40] for at in range(max(len(squeezed) - 39, 1))}
        left = "".join(redacted.split())
        if (
            REDACTION_MARK not in redacted
            or any(piece in left for piece in pieces)
            or sum(window in left for window in windows) > len(windows) / 3
            or not (redacted.startswith("before the text\n") and "after the text" in redacted)
            or redact(redacted) != redacted
        ):
            wrong[kind] = redacted
    assert wrong == {}


def test_pieces_of_addresses_paths_and_short_values_are_left_alone():
    redact = Redactor(
        ["https://api.example.com/v1/hooks/main", "/home/me/projects/thing/data1", "s3cret-pw"]
    ).redact
    for text in (
        "see https://api.example.com/v1/other",
        "cd /home/me/projects/thing",
        "s3cret- is a prefix",
        "a list: s, 3, c, r, e, t",
    ):
        assert redact(text) == text
    assert redact("s-3-c-r-e-t-p-w") == REDACTION_MARK


def test_a_vendor_key_without_digits_is_a_key():
    assert Redactor().redact(joined("sk-", "or-v1-", "a" * 48)) == f"sk-or-v1-{REDACTION_MARK}"
    name = "sk-proj-the-name-of-a-very-long-project"
    assert Redactor().redact(name) == name

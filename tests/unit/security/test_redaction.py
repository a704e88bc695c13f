"""Sample secrets are put together here, so that no text of the shape of a key is in the file."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.security import REDACTION_MARK, Redactor

ALNUM = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 4
HEX = "0123456789abcdef" * 5
DIGITS = "9081726354"


def joined(*parts: str) -> str:
    return "".join(parts)


JWT = joined("eyJ", ALNUM[:20], ".eyJ", ALNUM[:30], ".", ALNUM[:43])
PEM_BODY = "\n".join([ALNUM[:64]] * 3)

SECRETS = {
    "openai": joined("sk-", ALNUM[:48]),
    "openai project": joined("sk-", "proj-", ALNUM[:40], "_-", ALNUM[:40]),
    "anthropic": joined("sk-", "ant-api03-", ALNUM[:80], "-AA"),
    "openrouter": joined("sk-", "or-v1-", HEX[:64]),
    "deepseek": joined("sk-", HEX[:32]),
    "unknown maker": joined("sk-", "kimi-", ALNUM[:40]),
    "github classic": joined("ghp", "_", ALNUM[:36]),
    "github oauth": joined("gho", "_", ALNUM[:36]),
    "github user": joined("ghu", "_", ALNUM[:36]),
    "github server": joined("ghs", "_", ALNUM[:36]),
    "github refresh": joined("ghr", "_", ALNUM[:36]),
    "github fine-grained": joined("github", "_pat_", ALNUM[:22], "_", ALNUM[:59]),
    "gitlab": joined("glpat", "-", ALNUM[:20]),
    "grafana": joined("glsa", "_", ALNUM[:32], "_", HEX[:8]),
    "slack bot": joined("xoxb", "-", DIGITS, "-", DIGITS, "-", ALNUM[:24]),
    "slack user": joined("xoxp", "-", DIGITS, "-", ALNUM[:24]),
    "slack app": joined("xapp", "-1-", ALNUM[:11], "-", HEX[:64]),
    "slack webhook": joined("https://hooks.slack", ".com/services/T0", "/B0/", ALNUM[:24]),
    "discord webhook": joined("https://discord.com/api/", "webhooks/", DIGITS * 2, "/", ALNUM[:60]),
    "discord bot": joined("M", ALNUM[:25], ".", ALNUM[:6], ".", ALNUM[:38]),
    "telegram bot": joined(DIGITS, ":AA", ALNUM[:33]),
    "aws access key": joined("AKIA", "ABCDEFGH12345678"),
    "aws session key": joined("ASIA", "ABCDEFGH12345678"),
    "aws secret": joined("aws_secret_access_key = ", ALNUM[:40]),
    "google api": joined("AIza", ALNUM[:35]),
    "google oauth": joined("ya29", ".", ALNUM[:60]),
    "google refresh": joined("1//", "0", ALNUM[:60]),
    "huggingface": joined("hf", "_", ALNUM[:34]),
    "groq": joined("gsk", "_", ALNUM[:52]),
    "xai": joined("xai", "-", ALNUM[:80]),
    "perplexity": joined("pplx", "-", ALNUM[:48]),
    "nvidia": joined("nvapi", "-", ALNUM[:64]),
    "tavily": joined("tvly", "-dev-", ALNUM[:32]),
    "firecrawl": joined("fc", "-", HEX[:32]),
    "replicate": joined("r8", "_", ALNUM[:37]),
    "stripe live": joined("sk", "_live_", ALNUM[:24]),
    "stripe webhook": joined("whsec", "_", ALNUM[:32]),
    "twilio": joined("SK", HEX[:32]),
    "sendgrid": joined("SG", ".", ALNUM[:22], ".", ALNUM[:43]),
    "npm": joined("npm", "_", ALNUM[:36]),
    "pypi": joined("pypi", "-AgEI", ALNUM[:100]),
    "digitalocean": joined("dop", "_v1_", HEX[:64]),
    "shopify": joined("shpat", "_", HEX[:32]),
    "databricks": joined("dapi", HEX[:32]),
    "vault": joined("hvs", ".", ALNUM[:90]),
    "linear": joined("lin", "_api_", ALNUM[:40]),
    "docker": joined("dckr", "_pat_", ALNUM[:27]),
    "age": joined("AGE-SECRET", "-KEY-1", ALNUM.upper()[:58]),
    "jwt": JWT,
    "bearer": joined("Bearer ", ALNUM[:30]),
    "authorization header": joined("Authorization: Basic ", ALNUM[:24], "=="),
    "authorization in a dict": joined("{'Authorization': 'Token ", ALNUM[:24], "'}"),
    "authorization without a scheme": joined("authorization: ", ALNUM[:24]),
    "api key header": joined("x-api-key: ", ALNUM[:24]),
    "cookie": joined("Cookie: session=", ALNUM[:24], "; theme=dark"),
    "basic auth url": joined("https://user:", "hunter-two", "@example.com/path"),
    "database url": joined("postgresql://app:", "pw", "@db:5432/main"),
    "url parameter": joined("GET /x?a=1&access_token=", "correcthorse", "&b=2"),
    "signed url": joined("https://s3/x?X-Amz-Signature=", HEX[:64]),
    "password assignment": joined("PASSWORD=", "correcthorse"),
    "quoted password": joined('password = "', "correcthorse", '"'),
    "json secret": joined('{"client_secret": "', ALNUM[:20], '"}'),
    "camel case token": joined('"accessToken": "', ALNUM[:20], '"'),
    "azure account key": joined("AccountKey=", ALNUM[:86], "=="),
    "env export": joined("export MY_SERVICE_TOKEN=", ALNUM[:20]),
    "rsa key": joined("-----BEGIN RSA ", "PRIVATE KEY-----\n", PEM_BODY, "\n-----END RSA ")
    + "PRIVATE KEY-----",
    "openssh key": joined("-----BEGIN OPENSSH ", "PRIVATE KEY-----\n", PEM_BODY, "\n")
    + "-----END OPENSSH PRIVATE KEY-----",
    "cut key block": joined("-----BEGIN ", "PRIVATE KEY-----\\n", ALNUM[:64], "\\n", ALNUM[:40]),
    "pgp key": joined("-----BEGIN PGP ", "PRIVATE KEY BLOCK-----\n\n", PEM_BODY, "\n-----END PGP ")
    + "PRIVATE KEY BLOCK-----",
}

HARMLESS = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "9fceb02 fix: sort the keys of a request (#12)",
    "request 123e4567-e89b-12d3-a456-426614174000 took 12 ms",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "max_tokens=4096 temperature=0.2 prompt_tokens: 18231 token_count=12345678",
    "usage: input_tokens=1234, output_tokens=5678, cache_read_tokens=91011",
    "def login(user: str, password: str | None = None, token: str = '') -> bool:",
    "password = getpass.getpass('Password: ')",
    "token = tokens[index2]",
    "self.api_key = settings.api_key",
    "login(password=password, token=token)",
    "api_key=os.environ['OPENAI_API_KEY']",
    "api_key: ${OPENAI_API_KEY}",
    "token: <your token here>",
    "password: ********",
    '"secret": "my-kubernetes-secret-name"',
    '"password": null, "token": false',
    "Enter your password: ",
    "the authorization: required for every endpoint, see the Bearer token section",
    "Authorization: Bearer <token>",
    "https://example.com:8080/path?page=2&key=abc#top",
    "git clone git@github.com:owner/repository.git",
    "mail me at someone@example.com: thanks",
    "pip install sk-learn-contrib-project-template task-2024-01-01-and-some-more-words",
    "disk-usage-of-the-whole-machine-20241231 risk-assessment-2024-final-version-of-the-report",
    "2026-11-15 03:17:22.123+0000 INFO [20261115_031722_ab12cd34] hermes.agent: 3 tool calls",
    "hf_transformers_loading_utilities_for_models_2",
    "MOZILLA.org.is_not_a_token_of_any_kind_at_all",
    "key-value store, foreign key=user_id, PRIMARY KEY (id), primary-key: 12",
    "keyboard: ctrl-c=interrupt, passing=12345678, compass: north12345",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "at 0x7f3c5e2b1d90, errno 13, port 65535, 1234567890: done",
    "eyJ is how every JSON object begins in base64",
    "SELECT token FROM sessions WHERE secret IS NOT NULL",
    "C:\\Users\\me\\AppData\\Local\\Temp\\pytest-of-me\\pytest-12",
    "Cookie: none",
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
        KNOWN,
        quote(KNOWN, safe=""),
        quote_plus(KNOWN),
        json.dumps(KNOWN),
        json.dumps(KNOWN, ensure_ascii=False),
        base64.b64encode(KNOWN.encode()).decode(),
        base64.b64encode(f"user:{KNOWN}".encode()).decode(),
        base64.b64encode(f"me:{KNOWN}:x".encode()).decode(),
        base64.urlsafe_b64encode(f"u:{KNOWN}".encode()).decode(),
    ],
)
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

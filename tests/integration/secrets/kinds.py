"""Forty kinds of secrets, none of them real. Put together here, so that no scanner finds them."""

import random
import string

_random = random.Random(5)
ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def of(letters: str, count: int) -> str:
    """Random letters, with a digit among them as real keys have."""
    return "".join(_random.choice(letters) for _ in range(count - 2)) + "7" + letters[0]


def pem(kind: str) -> str:
    body = "\n".join(of(ALNUM, 64) for _ in range(5))
    return f"-----BEGIN {kind} KEY-----\n{body}\n-----END {kind} KEY-----"


def joined(*parts: str) -> str:
    return "".join(parts)


BY_SHAPE: dict[str, str] = {
    "openai": joined("sk-", of(ALNUM, 48)),
    "openai project": joined("sk-", "proj-", of(ALNUM, 64)),
    "anthropic": joined("sk-", "ant-", "api03-", of(ALNUM, 80)),
    "openrouter": joined("sk-", "or-", "v1-", of(HEX, 64)),
    "google": joined("AI", "za", of(ALNUM, 35)),
    "google login": joined("ya", "29.", of(ALNUM, 60)),
    "aws key id": joined("AK", "IA", of(UPPER, 16)),
    "github": joined("gh", "p_", of(ALNUM, 36)),
    "github fine-grained": joined("github", "_pat_", of(ALNUM, 22), "_", of(ALNUM, 59)),
    "github app": joined("gh", "s_", of(ALNUM, 36)),
    "gitlab": joined("gl", "pat-", of(ALNUM, 20)),
    "slack bot": joined("xo", "xb-", of("0123456789", 12), "-", of(ALNUM, 24)),
    "slack app": joined("xa", "pp-1-", of(UPPER, 11), "-", of("0123456789", 13), "-", of(HEX, 64)),
    "slack webhook": joined("https://hooks.slack", ".com/services/T", of(UPPER, 8), "/B",
                            of(UPPER, 8), "/", of(ALNUM, 24)),
    "discord webhook": joined("https://discord", ".com/api/webhooks/", of("0123456789", 18), "/",
                              of(ALNUM, 68)),
    "telegram": joined("8", of("0123456789", 9), ":", "AA", of(ALNUM, 33)),
    "stripe": joined("sk", "_live_", of(ALNUM, 24)),
    "twilio": joined("S", "K", of(HEX, 32)),
    "sendgrid": joined("SG", ".", of(ALNUM, 22), ".", of(ALNUM, 43)),
    "npm": joined("np", "m_", of(ALNUM, 36)),
    "pypi": joined("py", "pi-", "AgEIcHlwaS5vcmc", of(ALNUM, 140)),
    "hugging face": joined("h", "f_", of(ALNUM, 34)),
    "groq": joined("gs", "k_", of(ALNUM, 52)),
    "xai": joined("xa", "i-", of(ALNUM, 80)),
    "perplexity": joined("pp", "lx-", of(ALNUM, 48)),
    "tavily": joined("tv", "ly-", of(ALNUM, 32)),
    "firecrawl": joined("f", "c-", of(HEX, 32)),
    "replicate": joined("r", "8_", of(ALNUM, 37)),
    "digitalocean": joined("do", "p_v1_", of(HEX, 64)),
    "jwt": joined("ey", "J", of(ALNUM, 33), ".", "ey", "J", of(ALNUM, 60), ".", of(ALNUM, 43)),
    "rsa key": pem("RSA PRIVATE"),
    "openssh key": pem("OPENSSH PRIVATE"),
}  # fmt: skip
"""Known by what they look like."""

IN_CONTEXT: dict[str, tuple[str, str]] = {
    "aws secret": ("aws_secret_access_key = {}", of(ALNUM + "/+", 40)),
    "password setting": ("password: {}", of(ALNUM, 14)),
    "api key setting": ('"api_key": "{}"', of(LOWER, 30)),
    "url password": ("postgres://user:{}@db.example/app", of(ALNUM, 16)),
    "bearer header": ("Authorization: Bearer {}", of(ALNUM, 40)),
    "basic header": ("authorization: Basic {}", of(ALNUM, 24)),
    "query token": ("https://x.example/?access_token={}", of(ALNUM, 32)),
    "cookie": ("Cookie: session={}", of(ALNUM, 40)),
}
"""Known by where they stand."""

IN_DOTENV: dict[str, str] = {
    "MY_PASSPHRASE": "correct horse battery staple",
    "CUSTOM_VALUE": of(LOWER, 12),
    "LICENCE": of(UPPER, 25),
    "OPENROUTER_API_KEY": of(LOWER, 20),
    "EMAIL_PASSWORD": "hunter2",
}
"""Values of .env: secret whatever they look like."""


def lines() -> list[str]:
    """As they would stand in a file."""
    shaped = list(BY_SHAPE.values())
    placed = [template.format(value) for template, value in IN_CONTEXT.values()]
    return [*shaped, *placed, *IN_DOTENV.values()]


def values() -> dict[str, str]:
    """What must not leave, by kind; of a key of several lines one line is enough."""
    found = dict(BY_SHAPE)
    found |= {kind: value for kind, (_, value) in IN_CONTEXT.items()}
    found |= {f".env {name}": value for name, value in IN_DOTENV.items()}
    return {kind: value.splitlines()[len(value.splitlines()) // 2] for kind, value in found.items()}

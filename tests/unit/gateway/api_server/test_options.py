"""The server does not start where it would let anybody in."""

import pytest

from hermes.gateway.platforms.api_server.options import Options, is_loopback, read_options
from hermes.gateway.platforms.base import CredentialsRefused

KEY = "0123456789abcdef"


def read(**variables: str) -> Options:
    return read_options({f"API_SERVER_{name}": value for name, value in variables.items()}.get)


def test_without_anything_said_it_is_for_this_machine() -> None:
    options = read()
    assert (options.host, options.port, options.key) == ("127.0.0.1", 8642, "")
    assert options.origins == ()
    assert options.model_name == "hermes"


def test_what_is_said_counts() -> None:
    options = read(
        HOST="0.0.0.0",
        PORT="9000",
        KEY=f" {KEY} ",
        CORS_ORIGINS="https://Chat.example.com/, http://localhost:3000",
        MODEL_NAME="butler",
    )
    assert options == Options(
        "0.0.0.0", 9000, KEY, ("https://chat.example.com", "http://localhost:3000"), "butler"
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"KEY": "s3cret"},
        {"KEY": "0123456789abcde"},
        {"KEY": "ABC" + " " * 20},
        {"HOST": "0.0.0.0"},
        {"HOST": "::"},
        {"HOST": "192.168.1.5"},
        {"HOST": "my-host"},
        {"HOST": "0.0.0.0", "KEY": " " * 30},
        {"HOST": "127.0.0.1.example.com"},
        {"CORS_ORIGINS": "*"},
        {"CORS_ORIGINS": "chat.example.com"},
        {"PORT": "http"},
        {"PORT": "70000"},
        {"PORT": "-1"},
        {"PORT": "٣"},
    ],
)
def test_what_would_be_dangerous_or_cannot_be_is_refused(variables: dict[str, str]) -> None:
    with pytest.raises(CredentialsRefused) as refused:
        read(**variables)
    key = variables.get("KEY", "").strip()
    assert not key or key not in str(refused.value)


def test_with_a_key_everybody_may_reach_it_and_every_page_may_use_it() -> None:
    assert read(HOST="::", KEY=KEY, CORS_ORIGINS="*").origins == ("*",)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)

"""The server does not start with settings that would admit anyone."""

from typing import Any

import pytest

from hermes.config.settings.platforms import ApiServerExtra, ApiServerPlatform
from hermes.gateway.platforms.api_server.options import ApiOptions, read_options
from hermes.sdk.platforms import CredentialsRefused

KEY = "0123456789abcdef"


def read(**variables: str) -> ApiOptions:
    return read_options({f"API_SERVER_{name}": value for name, value in variables.items()}.get)


def written(token: str = "", **extra: Any) -> ApiServerPlatform:
    return ApiServerPlatform(token=token, extra=ApiServerExtra(**extra))


def test_settings_take_precedence_over_variables() -> None:
    variables = {f"API_SERVER_{name}": "0" * 16 for name in ("KEY", "MODEL_NAME", "HOST")}
    variables |= {"API_SERVER_PORT": "1", "API_SERVER_CORS_ORIGINS": "https://other.example.com"}
    pages = ("https://Chat.example.com/",)
    said = {"host": "0.0.0.0", "port": 0, "cors_origins": pages, "model_name": "butler"}
    wanted = ApiOptions("0.0.0.0", 0, KEY, ("https://chat.example.com",), "butler")
    assert read_options(variables.get, written(key=KEY, **said)) == wanted
    assert read_options(variables.get, written(KEY, **said)) == wanted
    assert read_options(variables.get, written()).port == 1


@pytest.mark.parametrize(
    "connection",
    [
        written("${MY_KEY}"),
        written(key="${MY_KEY}"),
        written(key="a-good-beginning-${MY_KEY}"),
        written("short"),
        written(key="short"),
        written(host="0.0.0.0"),
        written(cors_origins=("*",)),
    ],
)
def test_key_can_come_from_settings(connection: ApiServerPlatform) -> None:
    with pytest.raises(CredentialsRefused) as refused:
        read_options({}.get, connection)
    if "MY_KEY" in f"{connection}":
        assert "${MY_KEY} is not set" in str(refused.value)


def test_configured_but_missing_key_is_refused() -> None:
    with pytest.raises(CredentialsRefused, match=r"\$\{MY_KEY\} is not set"):
        read_options({}.get, unset={"API_SERVER_KEY": ("MY_KEY",)}.__getitem__)


def test_defaults_listen_on_loopback() -> None:
    options = read()
    assert (options.host, options.port, options.key) == ("127.0.0.1", 8642, "")
    assert options.origins == ()
    assert options.model_name == "hermes"


def test_variables_are_used() -> None:
    options = read(
        HOST="0.0.0.0",
        PORT="9000",
        KEY=f" {KEY} ",
        CORS_ORIGINS="https://Chat.example.com/, http://localhost:3000",
        MODEL_NAME="butler",
    )
    assert options == ApiOptions(
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
def test_dangerous_or_invalid_options_are_refused(variables: dict[str, str]) -> None:
    with pytest.raises(CredentialsRefused) as refused:
        read(**variables)
    key = variables.get("KEY", "").strip()
    assert not key or key not in str(refused.value)


def test_with_a_key_any_host_and_origin_is_possible() -> None:
    assert read(HOST="::", KEY=KEY, CORS_ORIGINS="*").origins == ("*",)

"""Keys go to their own host only."""

import pytest

from hermes.providers.endpoints import (
    ENDPOINTS,
    Endpoint,
    endpoint_of_host,
    find_endpoint,
    may_receive_key,
)

KEYED = [e for e in ENDPOINTS if e.key_vars and e.base_url.startswith("https://")]

LOOKALIKES = (
    "https://{host}.evil.example/v1",
    "https://{host}@evil.example/v1",
    "https://{host}:443@evil.example/v1",
    "https://evil.example/{host}/v1",
    "https://evil.example/?{host}",
    "https://evil.example#@{host}/v1",
    "https://evil.example\\@{host}/v1",
    "https://evil.example\\.{host}/v1",
    "https://evil{host}/v1",
    "https://evil-{host}/v1",
    "https://x.{host}/v1",
    "https://{host}./v1",
    "https://{host}%2eevil.example/v1",
    "https://{host};evil.example/v1",
    "https://{host}:8443/v1",
    "http://{host}/v1",
    "//{host}/v1",
    "ftp://{host}/v1",
    "https:/{host}/v1",
    " https://{host}/v1",
    "https://{host}/v1\r\nHost: evil.example",
    "https://\u043e{host}/v1",
    "https://127.0.0.1/v1",
    "https://[::1]/v1",
    "",
)


def _host(endpoint: Endpoint) -> str:
    host = endpoint.base_url.removeprefix("https://").split("/")[0]
    return host.replace("{region}", "eu-west-1")


@pytest.mark.parametrize("shape", LOOKALIKES)
@pytest.mark.parametrize("endpoint", KEYED, ids=lambda e: e.id)
def test_no_lookalike_of_a_host_gets_its_key(endpoint, shape):
    host = _host(endpoint)
    assert not may_receive_key(endpoint, shape.format(host=host))


@pytest.mark.parametrize("endpoint", KEYED, ids=lambda e: e.id)
def test_a_provider_gets_its_own_key_at_every_path_and_in_any_case(endpoint):
    url = endpoint.base_url.replace("{region}", "eu-west-1")
    host = url.removeprefix("https://").split("/")[0]
    for own in (url, f"https://{host.upper()}/other/path", f"https://{host}:443/v1"):
        assert may_receive_key(endpoint, own), own


@pytest.mark.parametrize("endpoint", KEYED, ids=lambda e: e.id)
def test_no_provider_gets_the_key_of_another(endpoint):
    for other in KEYED:
        same_house = _host(other) == _host(endpoint)
        if not same_house:
            assert not may_receive_key(other, endpoint.base_url), other.id


def test_a_star_is_one_label():
    endpoint = Endpoint(id="x", label="X", key_hosts=("api.*.example.com",))
    assert may_receive_key(endpoint, "https://api.eu.example.com/v1")
    assert not may_receive_key(endpoint, "https://api.eu.evil.example.com/v1")
    assert not may_receive_key(endpoint, "https://api.example.com/v1")


def test_a_server_on_this_machine_is_one_place_with_one_port():
    ollama = find_endpoint("ollama")
    assert may_receive_key(ollama, "http://127.0.0.1:11434/v1")
    assert not may_receive_key(ollama, "http://127.0.0.1:11435/v1")
    assert not may_receive_key(ollama, "http://localhost:11434/v1")


def test_the_owner_of_an_address_is_known():
    assert endpoint_of_host("https://openrouter.ai/api/v1/").id == "openrouter"
    assert endpoint_of_host("https://openrouter.ai.evil.example/api/v1") is None
    assert endpoint_of_host("http://127.0.0.1:9/v1") is None

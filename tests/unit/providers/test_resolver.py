"""Which endpoint a request goes to, and which key goes with it."""

import pytest

from hermes.core.errors import ConfigError, CredentialMissing
from hermes.providers.endpoints import ENDPOINTS
from hermes.providers.resolver import Choice, resolve

ALL_KEYS = {
    variable: f"key-of-{endpoint.id}"
    for endpoint in reversed(ENDPOINTS)
    for variable in endpoint.key_vars
}


def no_keys(_name: str) -> None:
    return None


def test_without_any_key_the_embedded_model_answers():
    target = resolve(Choice(), no_keys)
    assert (target.provider, target.source) == ("local", "no key is configured")
    assert target.profile.small


def test_a_key_in_the_environment_chooses_its_provider():
    target = resolve(Choice(), {"DEEPSEEK_API_KEY": "k"}.get)
    assert (target.provider, target.api_key) == ("deepseek", "k")
    assert target.source == "DEEPSEEK_API_KEY is set"


def test_a_chosen_provider_beats_keys_of_others():
    assert resolve(Choice(provider="groq"), ALL_KEYS.get).provider == "groq"


def test_an_alias_names_the_same_provider():
    assert resolve(Choice(provider="grok"), ALL_KEYS.get).provider == "xai"


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.base_url], ids=lambda e: e.id)
def test_a_providers_key_is_not_sent_to_another_address(endpoint):
    hostile = Choice(provider=endpoint.id, base_url="https://evil.example/v1", model="m")
    if endpoint.needs_key:
        with pytest.raises(CredentialMissing):
            resolve(hostile, ALL_KEYS.get)
    else:
        assert resolve(hostile, ALL_KEYS.get).api_key == ""


def test_a_missing_key_is_named_with_the_way_to_set_it():
    with pytest.raises(CredentialMissing) as caught:
        resolve(Choice(provider="openai"), no_keys)
    assert "OPENAI_API_KEY" in caught.value.hint


def test_an_unknown_provider_lists_the_known_ones():
    with pytest.raises(ConfigError) as caught:
        resolve(Choice(provider="opnai"), no_keys)
    assert "openai" in caught.value.hint


def test_an_address_alone_means_a_custom_endpoint():
    target = resolve(Choice(base_url="http://127.0.0.1:9/v1/", model="m"), no_keys)
    assert (target.provider, target.base_url) == ("custom", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize("address", ["127.0.0.1:9/v1", "ftp://x/y"])
def test_an_address_that_is_no_http_address_is_refused(address):
    with pytest.raises(ConfigError, match="http://"):
        resolve(Choice(provider="custom", base_url=address, model="m"), no_keys)


def test_a_custom_endpoint_needs_a_model_name():
    with pytest.raises(ConfigError, match="no model"):
        resolve(Choice(provider="custom", base_url="http://127.0.0.1:9/v1"), no_keys)


@pytest.mark.parametrize(
    ("base_url", "model", "small"),
    [
        ("http://127.0.0.1:11434/v1", "qwen2.5-coder:0.5b", True),
        ("http://localhost:8080/v1", "Llama-3.2-1B-Instruct", True),
        ("http://127.0.0.1:11434/v1", "qwen3:14b", False),
        ("http://127.0.0.1:11434/v1", "llama3.1b-turbo", False),
        ("https://api.example.com/v1", "tiny-1b", False),
    ],
)
def test_a_small_model_on_this_machine_gets_the_small_prompt(base_url, model, small):
    target = resolve(Choice(base_url=base_url, model=model), no_keys)
    assert target.profile.small is small

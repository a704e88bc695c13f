"""The table of providers: one row here for each record."""

import json
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hermes.core.errors import ConfigError
from hermes.providers import endpoints
from hermes.providers.catalog.catalog import Family, ModelEntry
from hermes.providers.endpoints import (
    ENDPOINTS,
    Endpoint,
    check_base_url,
    endpoint_of_host,
    find_endpoint,
    may_receive_key,
)
from hermes.providers.failures.classify import FailureRule
from hermes.util.http import is_loopback

DATA = json.loads(Path(__file__).with_name("endpoints.json").read_text())
"""Host, first variable of the key and API of each provider; documented aliases; addresses that
look like one of a provider."""


def test_each_provider_is_in_the_table_once_with_its_host_variable_and_api():
    found = [
        (e.id, urlsplit(e.base_url).hostname or "", next(iter(e.key_vars), ""), e.api_mode)
        for e in ENDPOINTS
    ]
    assert sorted(found) == sorted((name, *row) for name, row in DATA["rows"].items())


@pytest.mark.parametrize(
    ("file", "pick", "kind"),
    [
        ("endpoints.json", lambda data: data, Endpoint),
        ("catalog/models.json", lambda data: data["families"], Family),
        ("catalog/models.json", lambda data: data["models"], ModelEntry),
        ("failures/rules.toml", lambda data: data["rules"], FailureRule),
    ],
)
def test_records_have_only_known_fields(file, pick, kind):
    path = Path(endpoints.__file__).parent / file
    read = json.loads if path.suffix == ".json" else tomllib.loads
    known = {*kind.__struct_fields__, "note"}
    assert [record for record in pick(read(path.read_text())) if not known.issuperset(record)] == []


def test_a_name_means_one_provider():
    names = [name for endpoint in ENDPOINTS for name in (endpoint.id, *endpoint.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower().strip() for name in names)


def test_documented_aliases_are_understood():
    found = {alias: endpoints.find_endpoint(alias) for alias in DATA["aliases"]}
    assert {alias: one and one.id for alias, one in found.items()} == DATA["aliases"]


def test_keys_travel_encrypted_unless_they_stay_on_this_machine():
    for endpoint in ENDPOINTS:
        parts = urlsplit(endpoint.base_url)
        if endpoint.api_mode == "acp":
            assert not endpoint.key_vars, endpoint.id
        elif endpoint.base_url and not is_loopback(parts.hostname or ""):
            assert parts.scheme == "https", endpoint.id
        assert not endpoint.base_url.endswith("/"), endpoint.id


def test_other_hosts_of_a_provider_are_plain_names():
    for endpoint, host in [(each, host) for each in ENDPOINTS for host in each.key_hosts]:
        labels = host.split(".")
        assert "*" not in labels[-2:], f"{host}: a whole domain would let strangers in"
        assert all(label == "*" or label.replace("-", "").isalnum() for label in labels), host
        assert may_receive_key(endpoint, f"https://{host.replace('*', 'eu-west-1')}/v1"), host
        foreign = f"https://{host.replace('*', 'x')}.example.org/v1"
        assert not may_receive_key(endpoint, foreign), foreign


SHARED = {"OPENAI_API_KEY": {"openai", "custom"}}
"""The user's own endpoint gets the key that OpenAI-compatible clients use."""


def test_a_variable_holds_the_key_of_one_provider():
    holders: dict[str, set[str]] = {}
    for endpoint in ENDPOINTS:
        for variable in (*endpoint.key_vars, *endpoint.base_url_vars):
            holders.setdefault(variable, set()).add(endpoint.id)
    assert {name: ids for name, ids in holders.items() if len(ids) > 1} == SHARED


def test_of_several_variables_the_documented_one_counts_first():
    order = {
        "zai": ("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"),
        "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "copilot": ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
    }
    assert {each.id: each.key_vars for each in ENDPOINTS if each.id in order} == order


def test_variables_of_other_programs_do_not_choose_a_provider():
    unasked = {name for endpoint in ENDPOINTS for name in endpoint.shared_key_vars}
    assert {"GH_TOKEN", "GITHUB_TOKEN", "HF_TOKEN", "AWS_ACCESS_KEY_ID"} <= unasked


def test_a_provider_that_can_be_reached_has_a_model_to_begin_with():
    for endpoint in ENDPOINTS:
        if endpoint.needs_key:
            assert endpoint.base_url, endpoint.id
            assert endpoint.default_model, endpoint.id
            assert endpoint.key_vars or endpoint.login or endpoint.auth == "aws", endpoint.id
        assert not endpoint.models_path or endpoint.models_path.startswith("/"), endpoint.id


KEYED = [e for e in ENDPOINTS if e.key_vars and e.base_url.startswith("https://")]


def _host(endpoint: Endpoint) -> str:
    host = endpoint.base_url.removeprefix("https://").split("/")[0]
    return host.replace("{region}", "eu-west-1")


def test_no_lookalike_of_a_host_gets_its_key():
    shown = [
        (each, shape.format(host=_host(each))) for each in KEYED for shape in DATA["lookalikes"]
    ]
    assert [(each.id, url) for each, url in shown if may_receive_key(each, url)] == []


def test_a_provider_gets_its_own_key_at_every_path_and_in_any_case():
    for endpoint in KEYED:
        url, host = endpoint.base_url.replace("{region}", "eu-west-1"), _host(endpoint)
        for own in (url, f"https://{host.upper()}/other/path", f"https://{host}:443/v1"):
            assert may_receive_key(endpoint, own), own


def test_no_provider_gets_the_key_of_another():
    pairs = [(one, other) for one in KEYED for other in KEYED if _host(one) != _host(other)]
    reported = [(one.id, other.id) for one, other in pairs if may_receive_key(other, one.base_url)]
    assert reported == []


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
    for endpoint in endpoints.ENDPOINTS:
        found = endpoint_of_host(endpoint.base_url)
        first = (e for e in endpoints.ENDPOINTS if endpoints.may_receive_key(e, endpoint.base_url))
        assert found is next(first, None)


@pytest.mark.parametrize("login", ["user:secret@", "user:sec@ret@", "secret@"])
def test_a_password_in_an_address_is_not_shown(login):
    with pytest.raises(ConfigError) as caught:
        check_base_url(f"https://{login}host.example/v1", "model.base_url")
    assert "sec" not in str(caught.value)
    assert "host.example" in str(caught.value)
    assert "leave out" in caught.value.hint

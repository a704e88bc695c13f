"""Which endpoint a request goes to, which key goes with it, and why."""

import msgspec
import pytest

from hermes.config.settings import (
    AuxiliaryTask,
    BedrockSettings,
    CustomProvider,
    PromptCachingSettings,
    ProviderModel,
    ProviderSettings,
    RoutingSettings,
    Settings,
    TimeoutSettings,
)
from hermes.core.errors import ConfigError, CredentialMissing, KeyNotBound
from hermes.core.model import Price
from hermes.providers.endpoints import ENDPOINTS, Credential, Endpoint, ModelProfile
from hermes.providers.resolver import (
    NO_KEY_REASON,
    ModelChoice,
    Resolver,
    auxiliary_targets,
    parse_model,
)
from tests.cases import table_test
from tests.dict_keys import DictKeys

ALL_KEYS = {
    variable: f"key-in-{variable}" for endpoint in ENDPOINTS for variable in endpoint.key_vars
}


class PlainModels:
    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        return endpoint.profile


def resolver(variables=None, settings=None, saved=()) -> Resolver:
    return Resolver(settings or Settings(), DictKeys(variables or {}, saved), PlainModels())


def keys_of(target) -> list[str]:
    return [credential.secret for credential in target.credentials]


def test_without_any_key_the_embedded_model_answers():
    target = resolver().resolve(ModelChoice())
    assert (target.provider, target.source) == ("local", NO_KEY_REASON)
    assert target.profile.small


def test_a_key_in_the_environment_chooses_its_provider():
    target = resolver({"DEEPSEEK_API_KEY": "k"}).resolve(ModelChoice())
    assert (target.provider, keys_of(target)) == ("deepseek", ["k"])
    assert target.source == "DEEPSEEK_API_KEY is set"


def test_a_key_saved_on_purpose_beats_one_the_shell_exports():
    keys = {"OPENROUTER_API_KEY": "shell", "DEEPSEEK_API_KEY": "saved"}
    found = resolver(keys, saved=("DEEPSEEK_API_KEY",))
    assert found.resolve(ModelChoice()).provider == "deepseek"
    order = [candidate.endpoint.id for candidate in found.candidates(ModelChoice())]
    assert order == ["deepseek", "openrouter"]


def test_an_address_exported_in_the_shell_does_not_beat_a_saved_key():
    exported = ModelChoice(base_url="http://127.0.0.1:9/v1", base_url_saved=False)
    target = resolver({"DEEPSEEK_API_KEY": "k"}, saved=("DEEPSEEK_API_KEY",)).resolve(exported)
    assert (target.provider, target.base_url) == ("deepseek", "https://api.deepseek.com/v1")


def test_a_chosen_provider_beats_keys_of_others():
    assert resolver(ALL_KEYS).resolve(ModelChoice(provider="groq")).provider == "groq"


def test_an_alias_names_the_same_provider():
    assert resolver(ALL_KEYS).resolve(ModelChoice(provider="Grok")).provider == "xai"


def test_openai_api_is_openai_and_does_not_ignore_the_address_of_the_environment():
    choice = ModelChoice(provider="openai-api", model="m")
    target = resolver({"OPENAI_API_KEY": "k"}).resolve(choice)
    assert (target.provider, target.base_url) == ("openai", "https://api.openai.com/v1")
    elsewhere = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with pytest.raises(CredentialMissing, match="the key of OpenAI is not sent there"):
        resolver(elsewhere).resolve(choice)


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"provider": "custom", "base_url": "http://127.0.0.1:9/v1"}, "reasoning_content"),
        ({"provider": "groq", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}, ""),  # strict
        ({"provider": "custom", "base_url": "https://api.openai.com/v1", "api_key": "k"}, ""),
        ({"provider": "openrouter", "api_key": "k"}, ""),
    ],
)
def test_reasoning_is_sent_back_to_servers_that_no_known_provider_has(choice, field):
    target = resolver().resolve(ModelChoice(model="m", **choice))
    assert target.profile.thinking_field == field


def test_variables_other_programs_use_do_not_choose_a_provider():
    for endpoint in ENDPOINTS:
        for variable in endpoint.shared_key_vars:
            assert resolver({variable: "k"}).resolve(ModelChoice()).provider == "local"


def test_a_login_of_another_program_does_not_choose_a_provider():
    class Found(DictKeys):
        def credentials(self, endpoint):
            return (Credential("claude-code", "t"),) if endpoint.id == "anthropic" else ()

    found = Resolver(Settings(), Found({}), PlainModels())
    assert found.resolve(ModelChoice()).provider == "local"
    assert keys_of(found.resolve(ModelChoice(provider="anthropic"))) == ["t"]


def test_a_custom_endpoint_gets_the_openai_variable_only_after_it_was_allowed():
    choice = ModelChoice(provider="custom", base_url="https://llm.example/v1", model="m")
    keys = DictKeys(ALL_KEYS)
    found = Resolver(Settings(), keys, PlainModels())
    with pytest.raises(KeyNotBound) as refused:
        found.resolve(choice)
    assert "hermes auth bind OPENAI_API_KEY https://llm.example/v1" in refused.value.hint
    keys.bound.add("https://llm.example/v1")
    assert keys_of(found.resolve(choice)) == [ALL_KEYS["OPENAI_API_KEY"]]


@pytest.mark.parametrize("start", ["sk-proj-", "sk-svcacct-", "sk-admin-"])
def test_a_key_that_only_openai_makes_goes_nowhere_else(start):
    url = "https://llm.example/v1"
    keys = DictKeys({"OPENAI_API_KEY": f"{start}1"})
    keys.bound.add(url)
    named = CustomProvider(name="lab", base_url=url, key_env="OPENAI_API_KEY")
    found = Resolver(Settings(custom_providers=(named,)), keys, PlainModels())
    assert keys_of(found.resolve(ModelChoice(provider="custom", base_url=url, model="m"))) == []
    assert keys_of(found.resolve(ModelChoice(provider="openai", model="m"))) == [f"{start}1"]
    for choice in (
        ModelChoice(provider="lab", model="m"),
        ModelChoice(provider="custom", base_url=url, key_env="OPENAI_API_KEY", model="m"),
    ):
        with pytest.raises(ConfigError):
            found.resolve(choice)


def test_a_custom_endpoint_at_a_known_host_gets_the_key_of_that_host():
    choice = ModelChoice(provider="custom", base_url="https://openrouter.ai/api/v1", model="m")
    assert keys_of(resolver(ALL_KEYS).resolve(choice)) == [ALL_KEYS["OPENROUTER_API_KEY"]]


def test_a_named_endpoint_is_found_by_its_name_and_gets_its_own_key_only():
    named = CustomProvider(name="Lab", base_url="https://lab.example/v1", key_env="LAB_KEY")
    found = resolver({**ALL_KEYS, "LAB_KEY": "l"}, Settings(custom_providers=(named,)))
    for name in ("Lab", "lab", "custom:lab"):
        target = found.resolve(ModelChoice(provider=name, model="m"))
        assert (target.provider, keys_of(target)) == ("custom:Lab", ["l"])
    open_one = CustomProvider(name="open", base_url="https://open.example/v1")
    target = resolver(ALL_KEYS, Settings(custom_providers=(open_one,))).resolve(
        ModelChoice(provider="open", model="m")
    )
    assert target.credentials == ()


def test_a_named_endpoint_may_hold_its_key_and_speak_another_wire():
    named = CustomProvider(
        name="lab", base_url="https://lab.example", api_key="k", api_mode="anthropic_messages"
    )
    target = resolver(settings=Settings(custom_providers=(named,))).resolve(
        ModelChoice(provider="lab", model="m")
    )
    assert (keys_of(target), target.api_mode, target.auth) == (
        ["k"],
        "anthropic_messages",
        "x-api-key",
    )


@pytest.mark.parametrize("how", ["key_env", "custom"])
def test_a_variable_of_a_known_provider_is_not_sent_elsewhere_even_when_named(how):
    url = "https://evil.example/v1"
    named = CustomProvider(name="x", base_url=url, key_env="OPENROUTER_API_KEY")
    found = resolver(ALL_KEYS, Settings(custom_providers=(named,)))
    asked = {
        "key_env": ModelChoice(provider="custom", base_url=url, key_env="GROQ_API_KEY", model="m"),
        "custom": ModelChoice(provider="x", model="m"),
    }
    with pytest.raises(ConfigError, match=r"is not sent to https://evil\.example/v1"):
        found.resolve(asked[how])


@pytest.mark.parametrize("variable", ["DEEPSEEK_BASE_URL", ""])
def test_a_providers_key_is_not_sent_to_an_address_in_its_place(variable):
    url = "https://api.deepseek.com.evil.example/v1"
    keys = {**ALL_KEYS, variable: url}
    choice = ModelChoice(provider="deepseek", base_url="" if variable else url)
    with pytest.raises(CredentialMissing) as caught:
        resolver(keys).resolve(choice)
    assert "not an address of DeepSeek" in str(caught.value)
    assert "model.api_key" in caught.value.hint


def test_a_key_given_with_the_address_is_sent_there():
    choice = ModelChoice(provider="deepseek", base_url="http://127.0.0.1:9/v1", api_key="mine")
    target = resolver(ALL_KEYS).resolve(choice)
    assert (target.base_url, keys_of(target)) == ("http://127.0.0.1:9/v1", ["mine"])


@table_test
def test_invalid_address_is_refused_without_repeating_a_password(url):
    with pytest.raises(ConfigError, match=r"model\.base_url") as caught:
        resolver().resolve(ModelChoice(provider="custom", base_url=url, model="m"))
    assert "pw" not in str(caught.value)


HERE = "http://127.0.0.1:9/v1"
REFUSED = [
    ({"provider": "groq", "key_env": "SPARE_KEY"}, CredentialMissing, "SPARE_KEY", ""),
    (
        {"provider": "custom", "model": "m", "base_url": HERE, "api_key": "${MINE}"},
        CredentialMissing,
        r"\$\{MINE\} is not set",
        "hermes config set MINE",
    ),
    ({"provider": "openai"}, CredentialMissing, "no key for OpenAI", "hermes auth add openai"),
    ({"provider": "openai"}, CredentialMissing, "no key for OpenAI", "OPENAI_API_KEY"),
    ({"provider": "opnai"}, ConfigError, "opnai", "openai"),
    ({"provider": "custom", "model": "m"}, ConfigError, "needs an address", ""),
    ({"provider": "custom", "base_url": HERE}, ConfigError, "no model is chosen", ""),
    ({"api_key": "somebodys"}, ConfigError, "says whose it is", ""),
]


@pytest.mark.parametrize(("choice", "kind", "problem", "hint"), REFUSED)
def test_choice_that_cannot_be_resolved_says_what_is_missing(choice, kind, problem, hint):
    with pytest.raises(kind, match=problem) as caught:
        resolver({"GROQ_API_KEY": "g"}).resolve(ModelChoice(**choice))
    assert hint in caught.value.hint


def test_timeouts_of_a_model_beat_those_of_its_provider_and_of_all():
    settings = Settings(
        timeouts=TimeoutSettings(stream_read_seconds=7),
        providers={
            "groq": ProviderSettings(
                request_timeout_seconds=50, models={"m": ProviderModel(timeout_seconds=5)}
            ),
            "xai": ProviderSettings(stale_timeout_seconds=9),
        },
    )
    found = resolver(ALL_KEYS, settings)
    assert found.resolve(ModelChoice(provider="groq", model="m")).timeouts.request == 5
    assert found.resolve(ModelChoice(provider="groq")).timeouts.request == 50
    assert found.resolve(ModelChoice(provider="groq")).timeouts.read == 7
    xai = found.resolve(ModelChoice(provider="xai")).timeouts
    assert (xai.request, xai.silence, xai.read, xai.stale) == (1800, 9, 9, 9)


def test_a_server_on_this_machine_may_think_as_long_as_the_request_may_take():
    here = resolver().resolve(ModelChoice(provider="ollama", model="m")).timeouts
    assert here.read == here.stale == here.request == 1800


def test_routing_is_sent_to_openrouter_only():
    settings = Settings(provider_routing=RoutingSettings(only=("groq",), data_collection="deny"))
    found = resolver(ALL_KEYS, settings)
    wanted = {"provider": {"only": ["groq"], "data_collection": "deny"}}
    sent = found.resolve(ModelChoice(provider="openrouter")).profile.extra_body
    assert msgspec.json.decode(msgspec.json.encode(sent)) == wanted
    assert "provider" not in found.resolve(ModelChoice(provider="groq")).profile.extra_body
    assert resolver(ALL_KEYS).resolve(ModelChoice(provider="openrouter")).profile.extra_body == {}


def test_bedrock_is_asked_in_the_region_of_the_settings():
    settings = Settings(bedrock=BedrockSettings(region="eu-west-1"))
    target = resolver(ALL_KEYS, settings).resolve(ModelChoice(provider="bedrock", model="m"))
    assert "bedrock-runtime.eu-west-1.amazonaws.com" in target.base_url


def test_a_context_length_in_the_settings_beats_what_is_known():
    choice = ModelChoice(provider="groq", context_length=1234)
    assert resolver(ALL_KEYS).resolve(choice).profile.context_length == 1234


@table_test
def test_a_model_may_be_written_with_its_provider(text, provider, model):
    choice = parse_model(text, ["lab"])
    assert (choice.provider, choice.model) == (provider, model)


def test_a_custom_endpoint_at_a_known_host_is_spoken_to_as_that_provider_is():
    choice = ModelChoice(provider="custom", base_url="https://api.anthropic.com/v1", model="m")
    target = resolver(ALL_KEYS).resolve(choice)
    assert (target.provider, target.api_mode, target.auth) == (
        "custom",
        "anthropic_messages",
        "x-api-key",
    )
    assert target.key_owner == "anthropic"


def test_an_address_in_the_place_of_openai_speaks_chat_completions():
    own = resolver(ALL_KEYS).resolve(ModelChoice(provider="openai"))
    other = ModelChoice(provider="openai", base_url="http://127.0.0.1:9/v1", api_key="k", model="m")
    assert own.api_mode == "codex_responses"
    assert resolver(ALL_KEYS).resolve(other).api_mode == "chat_completions"


def test_a_prefix_kept_for_an_hour_costs_more_to_keep():
    class Priced:
        def profile(self, endpoint, base_url, model):
            return ModelProfile(price=Price(3, 15, 0.3, 3.75), cache_marks=True)

    def price(ttl):
        settings = Settings(prompt_caching=PromptCachingSettings(cache_ttl=ttl))
        found = Resolver(settings, DictKeys(ALL_KEYS), Priced()).resolve(
            ModelChoice(provider="groq")
        )
        return found.profile.price.cache_write

    assert (price("5m"), price("1h")) == (3.75, 6)


def test_key_of_an_overruled_address_is_not_sent_to_the_chosen_provider():
    exported = ModelChoice(base_url="http://127.0.0.1:9/v1", base_url_saved=False, api_key="labs")
    target = resolver({"GROQ_API_KEY": "g"}, saved=("GROQ_API_KEY",)).resolve(exported)
    assert (target.provider, keys_of(target)) == ("groq", ["g"])


def test_another_model_of_a_target_keeps_what_the_settings_make_of_it():
    found = resolver(ALL_KEYS, Settings(provider_routing=RoutingSettings(only=("groq",))))
    main = found.resolve(ModelChoice(provider="openrouter"))
    other = found.with_model(main, "other")
    assert (other.model, other.credentials) == ("other", main.credentials)
    assert other.profile.extra_body == main.profile.extra_body


SEES = ("openrouter", "anthropic")


class Models:
    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        return msgspec.structs.replace(endpoint.profile, images=endpoint.id in SEES)


def plan(task="compression", main="groq", settings=None, keys=("GROQ_API_KEY",), **asked):
    variables = {name: f"key-in-{name}" for name in keys}
    resolver = Resolver(settings or Settings(), DictKeys(variables), Models())
    choice = ModelChoice(provider=main, model="talk", base_url=_own(main))
    targets = auxiliary_targets(task, AuxiliaryTask(**asked), resolver.resolve(choice), resolver)
    return [(target.provider, target.model) for target in targets]


def _own(provider: str) -> str:
    return "http://127.0.0.1:9/v1" if provider == "custom" else ""


def small(provider: str) -> str:
    endpoint = Resolver(Settings(), DictKeys({}), Models()).endpoint(provider)
    return endpoint.small_model or endpoint.default_model


LAB = CustomProvider(name="lab", base_url="http://127.0.0.1:9/v1")
PLANS = [
    ("auto, nothing else is configured", {"main": "ollama", "keys": ()}, [("ollama", "talk")]),
    ("main", {"provider": "main"}, [("groq", "talk")]),
    ("main with a model", {"provider": "main", "model": "other"}, [("groq", "other")]),
    ("a provider with a model", {"provider": "deepseek", "model": "m"}, [("deepseek", "m")]),
    ("a provider", {"provider": "deepseek"}, [("deepseek", small("deepseek"))]),
    (
        "an endpoint of the user",
        {"settings": Settings(custom_providers=(LAB,)), "provider": "lab", "model": "m"},
        [("custom:lab", "m")],
    ),
    ("an address", {"base_url": "http://127.0.0.1:8/v1", "model": "m"}, [("custom", "m")]),
]


def test_auxiliary_task_goes_where_its_settings_say():
    keys = ("GROQ_API_KEY", "DEEPSEEK_API_KEY")
    found = [(name, given, plan(**{"keys": keys, **given})) for name, given, _ in PLANS]
    assert found == PLANS


def test_auto_takes_the_small_model_of_the_first_provider_of_the_chain():
    keys = ("GROQ_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY")
    found = plan(keys=keys)
    assert found[0] == ("openrouter", small("openrouter"))
    assert {provider for provider, _ in found} == {"openrouter", "groq", "deepseek"}
    named = plan(keys=keys, model="tiny")
    assert [provider for provider, model in named if model == "tiny"] == ["openrouter"]
    assert plan(main="custom", keys=())[0] == ("custom", "talk")


def test_images_go_to_the_main_model_when_it_sees_them():
    keys = ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")
    assert plan("vision", main="anthropic", keys=keys)[0] == ("anthropic", "talk")
    blind = plan("vision", main="groq", keys=(*keys, "GROQ_API_KEY"))
    assert [provider for provider, _ in blind] == ["openrouter", "anthropic"]


@pytest.mark.parametrize(
    ("task", "asked", "kind", "hint"),
    [
        ("vision", {}, ConfigError, "auxiliary.vision.provider"),
        ("compression", {"provider": "deepseek"}, CredentialMissing, "hermes auth add deepseek"),
    ],
)
def test_auxiliary_task_without_a_model_says_what_to_set(task, asked, kind, hint):
    with pytest.raises(kind) as caught:
        plan(task, **asked)
    assert hint in caught.value.hint


def test_further_fields_of_a_task_are_sent():
    resolver = Resolver(Settings(), DictKeys({}), Models())
    main = resolver.resolve(ModelChoice(provider="ollama", model="m"))
    asked = AuxiliaryTask(provider="main", extra_body={"top_k": 1})
    (target,) = auxiliary_targets("mcp", asked, main, resolver)
    assert target.profile.extra_body["top_k"] == 1

"""Which model does the work beside the conversation."""

import msgspec
import pytest

from hermes.config.settings import Settings
from hermes.config.settings.model import AuxiliaryTask, CustomProvider
from hermes.core.errors import ConfigError, CredentialMissing
from hermes.providers.endpoints import Endpoint, ModelProfile
from hermes.providers.resolver import ModelChoice, Resolver, auxiliary_targets
from tests.dict_keys import DictKeys

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


def test_auto_takes_the_small_model_of_the_first_provider_of_the_chain():
    keys = ("GROQ_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY")
    found = plan(keys=keys)
    assert found[0] == ("openrouter", small("openrouter"))
    assert {provider for provider, _ in found} == {"openrouter", "groq", "deepseek"}


def test_auto_with_nothing_else_configured_uses_the_main_model():
    assert plan(main="ollama", keys=()) == [("ollama", "talk")]
    assert plan(main="custom", keys=())[0] == ("custom", "talk")


def test_a_model_named_under_auto_is_asked_of_the_first_provider_only():
    found = plan(keys=("GROQ_API_KEY", "OPENROUTER_API_KEY"), model="tiny")
    assert found[0] == ("openrouter", "tiny")
    assert all(model != "tiny" for _, model in found[1:])


def test_main_is_the_model_of_the_conversation():
    keys = ("GROQ_API_KEY", "OPENROUTER_API_KEY")
    assert plan(keys=keys, provider="main") == [("groq", "talk")]
    assert plan(keys=keys, provider="main", model="other") == [("groq", "other")]


def test_a_named_provider_is_the_only_one():
    keys = ("GROQ_API_KEY", "DEEPSEEK_API_KEY")
    assert plan(keys=keys, provider="deepseek", model="m") == [("deepseek", "m")]
    assert plan(keys=keys, provider="deepseek") == [("deepseek", small("deepseek"))]


def test_a_named_endpoint_of_the_users_own_can_be_named():
    lab = CustomProvider(name="lab", base_url="http://127.0.0.1:9/v1")
    settings = Settings(custom_providers=(lab,))
    assert plan(settings=settings, provider="lab", model="m") == [("custom:lab", "m")]


def test_an_address_alone_is_an_endpoint_of_its_own():
    assert plan(base_url="http://127.0.0.1:8/v1", model="m") == [("custom", "m")]


def test_a_named_provider_without_a_key_is_an_error():
    with pytest.raises(CredentialMissing):
        plan(provider="deepseek")


def test_images_go_to_the_main_model_when_it_sees_them():
    keys = ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")
    assert plan("vision", main="anthropic", keys=keys)[0] == ("anthropic", "talk")
    blind = plan("vision", main="groq", keys=(*keys, "GROQ_API_KEY"))
    assert [provider for provider, _ in blind] == ["openrouter", "anthropic"]


def test_images_without_any_model_that_sees_them_say_what_to_set():
    with pytest.raises(ConfigError) as caught:
        plan("vision")
    assert "auxiliary.vision.provider" in caught.value.hint


def test_further_fields_of_a_task_are_sent():
    resolver = Resolver(Settings(), DictKeys({}), Models())
    main = resolver.resolve(ModelChoice(provider="ollama", model="m"))
    asked = AuxiliaryTask(provider="main", extra_body={"top_k": 1})
    (target,) = auxiliary_targets("mcp", asked, main, resolver)
    assert target.profile.extra_body["top_k"] == 1

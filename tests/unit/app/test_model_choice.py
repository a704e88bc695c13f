"""What the settings ask for when parts of it are said in different places."""

from pathlib import Path

import pytest

from hermes.app.model_choice import fallback_choices, main_choice
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.providers.resolver import ModelChoice


@pytest.fixture
def chosen(hermes_home: Path, monkeypatch: pytest.MonkeyPatch):
    def choose(
        config: str = "", env: str = "", shell: dict | None = None, **said: str
    ) -> ModelChoice:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(config)
        (hermes_home / ".env").write_text(env)
        for name, value in (shell or {}).items():
            monkeypatch.setenv(name, value)
        overrides = {f"model.{name}": value for name, value in said.items()}
        return main_choice(load(Home(hermes_home), overrides))

    return choose


def parts(choice: ModelChoice) -> tuple[str, str, str, str]:
    return choice.provider, choice.model, choice.base_url, choice.api_key


OWN = "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1', api_key: k, default: m}"


def test_empty_choice_is_auto(chosen):
    assert parts(chosen()) == ("auto", "", "", "")


def test_values_of_config_yaml_are_used_together(chosen):
    choice = chosen(OWN)
    assert parts(choice) == ("custom", "m", "http://127.0.0.1:9/v1", "k")
    assert choice.reason == "model.provider is set by ~/.hermes/config.yaml line 1"


def test_a_provider_on_the_command_line_does_not_inherit_the_address_of_another(chosen):
    assert parts(chosen(OWN, provider="groq")) == ("groq", "", "", "")
    no_name = OWN.replace("provider: custom, ", "")
    assert parts(chosen(no_name, provider="groq")) == ("groq", "m", "", "")


def test_naming_the_same_provider_again_changes_nothing(chosen):
    assert parts(chosen(OWN, provider="custom")) == parts(chosen(OWN))
    mine = OWN.replace("custom", "groq")
    assert parts(chosen(mine, provider="groq")) == parts(chosen(mine))


def test_a_model_on_the_command_line_keeps_the_rest(chosen):
    assert parts(chosen(OWN, default="other")) == ("custom", "other", "http://127.0.0.1:9/v1", "k")


def test_a_model_on_the_command_line_may_name_its_provider(chosen):
    assert parts(chosen(OWN, default="groq:x/y")) == ("groq", "x/y", "", "")


def test_a_provider_in_front_of_the_saved_model_counts_when_none_is_named(chosen):
    assert parts(chosen("model: {default: 'groq:x/y'}")) == ("groq", "x/y", "", "")
    choice = chosen("model: {default: 'groq:x/y', provider: openrouter}")
    assert choice.provider == "openrouter"


def test_custom_in_front_of_a_model_means_the_saved_endpoint(chosen):
    own = ("custom", "other", "http://127.0.0.1:9/v1", "k")
    assert parts(chosen(OWN, default="custom:other")) == own
    assert parts(chosen(OWN.replace("provider: custom, ", ""), default="custom:other")) == own


def test_an_alias_stands_for_a_model_and_its_provider(chosen):
    config = "model_aliases: {fast: 'groq:x', big: {model: y, provider: xai}}"
    assert parts(chosen(config, default="fast")) == ("groq", "x", "", "")
    assert parts(chosen(config, default="big")) == ("xai", "y", "", "")


def test_a_saved_address_beats_a_provider_the_shell_exports(chosen):
    shell = {"HERMES_INFERENCE_PROVIDER": "groq"}
    choice = chosen("model: {base_url: 'http://127.0.0.1:9/v1'}", shell=shell)
    assert choice.is_auto
    assert choice.base_url == "http://127.0.0.1:9/v1"


def test_a_model_in_the_shell_fills_what_config_yaml_leaves_open(chosen):
    choice = chosen("model: {provider: groq}", shell={"HERMES_MODEL": "x"})
    assert parts(choice) == ("groq", "x", "", "")


def test_an_address_only_the_shell_exports_is_marked_as_such(chosen):
    url = "http://127.0.0.1:9/v1"
    exported = chosen(shell={"OPENAI_BASE_URL": url})
    assert (exported.base_url, exported.base_url_saved) == (url, False)
    assert exported.base_url_source == "OPENAI_BASE_URL"
    assert chosen(env=f"OPENAI_BASE_URL={url}\n").base_url_saved


def test_the_fallback_chain_leaves_out_incomplete_entries(hermes_home):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text(
        "fallback_providers:\n"
        "  - {provider: groq, model: a, key_env: SPARE}\n"
        "  - {provider: xai}\n"
        "  - {provider: custom, model: b, base_url: 'http://127.0.0.1:9/v1'}\n"
    )
    chain = list(fallback_choices(load(Home(hermes_home)).settings))
    assert [(c.provider, c.model, c.key_env) for c in chain] == [
        ("groq", "a", "SPARE"),
        ("custom", "b", ""),
    ]
    assert chain[1].reason == "fallback_providers[3]"


@pytest.mark.parametrize("name", ["gpt-5", "openai:gpt-5"])
def test_context_length_applies_only_to_its_model(chosen, name):
    config = f"model: {{provider: openai, default: '{name}', context_length: 32000}}"
    assert chosen(config).context_length == 32_000
    assert chosen(config, default="openai:gpt-5-mini").context_length == 0

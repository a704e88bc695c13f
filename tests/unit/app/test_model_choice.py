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


URL = "http://127.0.0.1:9/v1"
UNNAMED = OWN.replace("provider: custom, ", "")
ALIASES = "model_aliases: {fast: 'groq:x', big: {model: y, provider: xai}}"


@pytest.mark.parametrize(
    ("config", "said", "expected"),
    [
        ("", {}, ("auto", "", "", "")),
        (OWN, {}, ("custom", "m", URL, "k")),
        # A provider on the command line does not inherit the address of another.
        (OWN, {"provider": "groq"}, ("groq", "", "", "")),
        (UNNAMED, {"provider": "groq"}, ("groq", "m", "", "")),
        # The same provider again changes nothing.
        (OWN, {"provider": "custom"}, ("custom", "m", URL, "k")),
        (OWN.replace("custom", "groq"), {"provider": "groq"}, ("groq", "m", URL, "k")),
        # A model keeps the rest, or names its provider.
        (OWN, {"default": "other"}, ("custom", "other", URL, "k")),
        (OWN, {"default": "groq:x/y"}, ("groq", "x/y", "", "")),
        ("model: {default: 'groq:x/y'}", {}, ("groq", "x/y", "", "")),
        # `custom:` means the saved endpoint.
        (OWN, {"default": "custom:other"}, ("custom", "other", URL, "k")),
        (UNNAMED, {"default": "custom:other"}, ("custom", "other", URL, "k")),
        (ALIASES, {"default": "fast"}, ("groq", "x", "", "")),
        (ALIASES, {"default": "big"}, ("xai", "y", "", "")),
    ],
)
def test_the_strongest_source_decides_and_parts_fit_together(chosen, config, said, expected):
    assert parts(chosen(config, **said)) == expected


def test_the_reason_names_the_source_and_a_named_provider_wins_over_a_prefix(chosen):
    assert chosen(OWN).reason == "model.provider is set by ~/.hermes/config.yaml line 1"
    both = chosen("model: {default: 'groq:x/y', provider: openrouter}")
    assert both.provider == "openrouter"


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

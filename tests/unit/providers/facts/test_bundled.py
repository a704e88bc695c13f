"""What comes with Hermes: names are recognised however they are written, and prices have a date."""

from datetime import date

import pytest

from hermes.providers.catalog.catalog import (
    UNKNOWN_FAMILY,
    bundled_facts,
    bundled_models,
    complete_price,
    family_of,
    normalize_name,
)
from hermes.providers.catalog.tables import MODELS
from hermes.providers.endpoints import ENDPOINTS, Endpoint, find_endpoint


def endpoint(name: str) -> Endpoint:
    found = find_endpoint(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-4-5",
        "claude-opus-4-5-20251101",
        "anthropic/claude-opus-4.5",
        "anthropic/claude-opus-4.5:free",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "anthropic.claude-opus-4-5-20251101-v1:0",
        "claude-opus-4-5@20251101",
        "Claude-Opus-4.5-latest",
    ],
)
def test_a_model_is_recognised_however_it_is_written(name):
    assert normalize_name(name) == "claude-opus-4-5"
    facts = bundled_facts(endpoint("anthropic"), name)
    assert facts.price is not None
    assert (facts.price.input, facts.context_length) == (5, 200_000)


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_every_price_says_when_it_was_read(entry):
    assert family_of(entry.name) is not UNKNOWN_FAMILY
    if entry.price is None:
        return
    assert date(2024, 1, 1) <= date.fromisoformat(entry.price.date) <= date(2026, 11, 15)
    assert 0 < entry.price.cache_read <= entry.price.input < entry.price.output
    assert entry.price.input <= entry.price.cache_write <= 1.25 * entry.price.input


def test_no_model_is_described_twice():
    names = [normalize_name(entry.name) for entry in MODELS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("model", "thinks", "form", "temperature"),
    [
        ("claude-sonnet-5-5", True, "adaptive", False),
        ("claude-opus-4-7", True, "adaptive", False),
        ("claude-opus-4-6", True, "adaptive", True),
        ("claude-sonnet-4-5", True, "budget", True),
        ("claude-3-7-sonnet-20250219", True, "budget", True),
        ("claude-3-5-haiku-20241022", False, "", True),
        ("gpt-6-sol", True, "", False),
        ("gpt-5-chat-latest", False, "", True),
        ("o4-mini", True, "", False),
        ("gpt-4.1", False, "", True),
        ("openai/gpt-oss-120b", True, "", True),
        ("gemini-3.8-flash", True, "", True),
        ("deepseek-reasoner", True, "", True),
        ("deepseek-chat", False, "", True),
        ("qwen3-coder-plus", False, "", True),
        ("glm-5.3", True, "effort", True),
        ("glm-4.6", True, "", True),
        ("kimi-k2-0905-preview", False, "", True),
        ("grok-4-fast-non-reasoning", False, "", True),
    ],
)
def test_families_know_how_their_models_think(model, thinks, form, temperature):
    family = family_of(model)
    assert (family.reasoning, family.reasoning_format, family.temperature) == (
        thinks,
        form,
        temperature,
    )


@pytest.mark.parametrize(
    "model",
    [
        "text-embedding-3-large",
        "whisper-large-v3-turbo",
        "gpt-4o-mini-tts",
        "gpt-4o-transcribe",
        "gpt-image-1.5",
        "omni-moderation-latest",
        "models/imagen-4.0-generate-001",
        "gemini-2.5-flash-image",
        "qwen3-asr-flash",
        "grok-imagine-image",
        "mistral-ocr-latest",
    ],
)
def test_models_that_do_not_talk_are_told_apart(model):
    assert family_of(model).language is False


def test_nothing_is_said_of_a_model_nobody_knows():
    facts = bundled_facts(endpoint("openrouter"), "somebody/else-7")
    assert facts == type(facts)(id="somebody/else-7")


def test_a_newer_model_of_a_family_has_its_abilities_but_no_price():
    facts = bundled_facts(endpoint("openai"), "gpt-6.9-nova")
    assert (facts.reasoning, facts.images, facts.price) == (True, True, None)


@pytest.mark.parametrize(
    ("provider", "model", "priced"),
    [
        ("anthropic", "claude-sonnet-5-5", True),
        ("openrouter", "anthropic/claude-sonnet-5.5", True),
        ("copilot", "claude-sonnet-5", False),
        ("copilot", "gpt-5-mini", False),
        ("openai-codex", "gpt-6-sol", False),
        ("custom", "gpt-6-sol", False),
        ("bedrock", "us.anthropic.claude-opus-4-5-20251101-v1:0", False),
        ("huggingface", "zai-org/GLM-5.3", False),
    ],
)
def test_a_makers_price_holds_only_where_it_is_asked(provider, model, priced):
    assert (bundled_facts(endpoint(provider), model).price is not None) is priced


def test_what_the_cache_costs_is_usual_for_the_family():
    claude = complete_price("anthropic/claude-opus-4.5", 5, 25, None, None, "2026-11-15")
    assert (claude.cache_read, claude.cache_write) == (0.5, 6.25)
    unknown = complete_price("somebody/else", 5, 25, None, None, "2026-11-15")
    assert (unknown.cache_read, unknown.cache_write) == (5, 5)


@pytest.mark.parametrize(
    "provider",
    [e for e in ENDPOINTS if e.needs_key],
    ids=lambda e: e.id,
)
def test_there_is_something_to_list_for_every_provider(provider):
    names = bundled_models(provider)
    assert names[0] == provider.default_model
    assert len(names) == len(set(names))

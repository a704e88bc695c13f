"""What is known of a model, from whom, and what follows for requests to it."""

import re
from datetime import date

import msgspec
import pytest

from hermes.config.settings import (
    CustomProvider,
    ModelPrice,
    ProviderModel,
    ProviderSettings,
    Settings,
)
from hermes.config.settings import ModelOverrides as Said
from hermes.core.model import FREE, Price
from hermes.providers.catalog import catalog
from hermes.providers.catalog.catalog import (
    FRESH_SECONDS,
    UNKNOWN_FAMILY,
    CachedModelList,
    ModelCatalog,
    ModelFacts,
    ModelListCache,
    bundled_facts,
    bundled_models,
    bundled_tables,
    complete_price,
    family_of,
    model_overrides,
    normalize_name,
)
from hermes.providers.endpoints import ENDPOINTS, Endpoint, find_endpoint
from tests.cases import table_test
from tests.unit.providers.catalog.conftest import answer

SONNET = "claude-sonnet-5-5"


def endpoint(name: str, **changes) -> Endpoint:
    found = find_endpoint(name)
    assert found is not None
    return msgspec.structs.replace(found, **changes)


def profile(known, provider: str, model: str):
    found = endpoint(provider)
    return known.profile(found, found.base_url, model)


async def listed(known, client, server, provider: str, *rows) -> Endpoint:
    """An endpoint that has listed `rows`."""
    server.respond = lambda _request: answer({"data": list(rows)})
    found = endpoint(provider, base_url=f"{server.url}/v1")
    await known.refresh(found, found.base_url, None, client)
    return found


def test_without_any_list_the_bundled_tables_answer(known):
    facts = known.facts(endpoint("anthropic"), "https://api.anthropic.com/v1", SONNET)
    assert facts.price == Price(2, 10, 0.1, 2.5, "2026-10-03")
    assert (facts.context_length, facts.max_output) == (1_000_000, 128_000)


async def test_the_list_of_the_endpoint_beats_the_bundled_tables(known, client, server):
    here = await listed(known, client, server, "groq", {"id": "gpt-oss-20b", "context_window": 77})
    facts = known.facts(here, here.base_url, "gpt-oss-20b")
    assert facts.context_length == 77
    assert facts.reasoning is True, "what the list does not say comes from the tables"


async def test_settings_of_the_user_override_all_sources(cache_dir, clock, client, server):
    settings = Settings(
        providers={
            "groq": ProviderSettings(
                models={"gpt-oss-20b": ProviderModel(context_length=5, price=ModelPrice(1, 2))}
            )
        },
        custom_providers=(
            CustomProvider("mine", "http://127.0.0.1:1/v1", models={"m": Said(images=True)}),
        ),
    )
    known = ModelCatalog(cache_dir, model_overrides(settings), clock)
    row = {"id": "gpt-oss-20b", "context_window": 77, "max_completion_tokens": 9}
    here = await listed(known, client, server, "groq", row)
    facts = known.facts(here, here.base_url, "gpt-oss-20b")
    assert (facts.context_length, facts.max_output) == (5, 9)
    assert facts.price == Price(1, 2, 1, 1)
    mine = Endpoint(id="custom:mine", label="mine", base_url="http://127.0.0.1:1/v1")
    assert known.facts(mine, mine.base_url, "m").images is True


async def test_a_later_process_knows_what_an_earlier_one_asked(
    known, cache_dir, clock, client, server
):
    here = await listed(known, client, server, "groq", {"id": "m", "context_window": 77})
    server.close()
    clock.pass_(days=9)
    later = ModelCatalog(cache_dir, {}, clock)
    assert later.facts(here, here.base_url, "m").context_length == 77
    assert not later.is_fresh(here.base_url)


async def test_the_file_is_read_once(known, cache_dir, clock, client, server):
    here = await listed(known, client, server, "groq", {"id": "m", "context_window": 77})
    later = ModelCatalog(cache_dir, {}, clock)
    assert later.facts(here, here.base_url, "m").context_length == 77
    ModelListCache(cache_dir).path(here.base_url).unlink()
    assert later.facts(here, here.base_url, "m").context_length == 77


async def test_a_damaged_file_is_fetched_again(known, cache_dir, clock, client, server):
    here = await listed(known, client, server, "groq", {"id": "m", "context_window": 77})
    ModelListCache(cache_dir).path(here.base_url).write_bytes(b"{")
    later = ModelCatalog(cache_dir, {}, clock)
    assert later.cached_list(here.base_url) is None
    await later.refresh(here, here.base_url, None, client)
    assert later.facts(here, here.base_url, "m").context_length == 77


async def test_each_fact_says_where_it_comes_from(cache_dir, clock, client, server):
    overrides = {"openrouter": {"anthropic/claude-sonnet-5.5": Said(images=False)}}
    known = ModelCatalog(cache_dir, overrides, clock)
    row = {
        "id": "anthropic/claude-sonnet-5.5",
        "context_length": 900_000,
        "pricing": {"prompt": "0.000003", "completion": "0.000009"},
    }
    here = await listed(known, client, server, "openrouter", row)
    clock.pass_(hours=2, minutes=5)
    explained = {
        fact.field: (fact.value, fact.source)
        for fact in known.explain(here, here.base_url, "anthropic/claude-sonnet-5.5")
    }
    assert explained["images"] == (False, "config.yaml")
    assert explained["context_length"] == (900_000, "the list of OpenRouter, 2h 5m old")
    price, source = explained["price"]
    assert (price.input, price.cache_read, price.date) == (3, 0.3, "2026-11-15")
    assert source == "the list of OpenRouter, 2h 5m old (price of 2026-11-15)"
    assert explained["max_output"] == (128_000, "comes with Hermes")


def test_a_bundled_price_shows_its_date(known):
    found = endpoint("anthropic")
    explained = known.explain(found, found.base_url, SONNET)
    price = next(fact for fact in explained if fact.field == "price")
    assert price.source == "comes with Hermes (price of 2026-10-03)"


def test_models_on_this_machine_cost_nothing(known):
    assert profile(known, "ollama", "gpt-oss:20b").price == FREE


@table_test
def test_effort_is_asked_for_in_the_words_of_the_endpoint(known, provider, model, form):
    assert profile(known, provider, model).reasoning == form


@table_test
def test_reasoning_models_are_asked_in_their_own_way(
    known, provider, model, developer, field, temperature
):
    found = profile(known, provider, model)
    assert (found.developer_role, found.max_tokens_field, found.temperature) == (
        developer,
        field,
        temperature,
    )


@table_test
def test_prefixes_are_marked_where_marks_are_needed_and_understood(known, provider, model, marks):
    assert profile(known, provider, model).cache_marks is marks


@table_test
def test_a_small_model_on_this_machine_gets_the_small_prompt(
    known, base_url, model, small, context
):
    found = known.profile(endpoint("custom"), base_url, model)
    assert (found.small, found.context_length) == (small, context)


async def test_a_small_model_has_the_window_its_server_gives_it(known, client, server):
    row = {"id": "qwen2.5:1.5b", "meta": {"n_ctx_train": 32_768}}
    here = await listed(known, client, server, "llamacpp", row)
    found = known.profile(here, here.base_url, "qwen2.5:1.5b")
    assert (found.small, found.context_length) == (True, 32_768)


async def test_a_model_that_cannot_use_tools_is_not_offered_any(known, client, server):
    row = {"id": "plain", "supported_parameters": ["max_tokens"]}
    here = await listed(known, client, server, "openrouter", row)
    assert not known.profile(here, here.base_url, "plain").tools


@pytest.mark.parametrize("model", ["my-gpt-5-tuned", "Codex-House", "openai/gpt-5-mini"])
def test_the_system_prompt_of_gpt_5_and_codex_has_the_role_of_the_developer(known, model):
    endpoint = find_endpoint("custom")
    assert known.profile(endpoint, "http://127.0.0.1:9/v1", model).developer_role
    assert not known.profile(endpoint, "http://127.0.0.1:9/v1", "gpt-4o").developer_role


def bundled_endpoint(name: str) -> Endpoint:
    found = find_endpoint(name)
    assert found is not None
    return found


@table_test
def test_a_model_is_recognised_however_it_is_written(name):
    assert normalize_name(name) == "claude-opus-4-5"
    facts = bundled_facts(bundled_endpoint("anthropic"), name)
    assert facts.price is not None
    assert (facts.price.input, facts.context_length) == (5, 200_000)


@pytest.mark.parametrize("entry", bundled_tables().models, ids=lambda entry: entry.name)
def test_every_price_says_when_it_was_read(entry):
    assert family_of(entry.name) is not UNKNOWN_FAMILY
    if entry.price is None:
        return
    assert date(2024, 1, 1) <= date.fromisoformat(entry.price.date) <= date(2026, 11, 15)
    assert 0 < entry.price.cache_read <= entry.price.input < entry.price.output
    assert entry.price.input <= entry.price.cache_write <= 1.25 * entry.price.input


def test_no_model_is_described_twice():
    names = [normalize_name(entry.name) for entry in bundled_tables().models]
    assert len(names) == len(set(names))


@table_test
def test_families_know_how_their_models_think(model, thinks, form, temperature):
    family = family_of(model)
    assert (family.reasoning, family.reasoning_format, family.temperature) == (
        thinks,
        form,
        temperature,
    )


@table_test
def test_models_other_than_language_models_are_recognised(model):
    assert family_of(model).language is False


def test_unknown_model_has_no_bundled_facts():
    facts = bundled_facts(bundled_endpoint("openrouter"), "somebody/else-7")
    assert facts == type(facts)(id="somebody/else-7")


def test_a_newer_model_of_a_family_has_its_abilities_but_no_price():
    facts = bundled_facts(bundled_endpoint("openai"), "gpt-6.9-nova")
    assert (facts.reasoning, facts.images, facts.price) == (True, True, None)


@table_test
def test_a_makers_price_holds_only_where_it_is_asked(provider, model, priced):
    assert (bundled_facts(bundled_endpoint(provider), model).price is not None) is priced


def test_cache_price_is_derived_from_the_model_family():
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


URL = "https://api.example.com/v1"
FACTS = ModelFacts(
    id="m", aliases=("n",), context_length=9, price=Price(1, 2, 0.1, 1, "2026-11-15"), tools=False
)


@pytest.fixture
def cache(tmp_path) -> ModelListCache:
    return ModelListCache(tmp_path / "cache" / "models")


def test_cached_list_reads_back_unchanged(cache):
    cache.write(CachedModelList(URL, 1000.5, (FACTS,)))
    stored = cache.read(URL)
    assert stored == CachedModelList(URL, 1000.5, (FACTS,))
    assert stored.find("n") == FACTS
    assert stored.find("o") is None


def test_each_address_has_its_own_file_with_a_telling_name(cache):
    cache.write(CachedModelList(URL, 1, ()))
    cache.write(CachedModelList(f"{URL}/", 2, ()))
    names = sorted(path.name for path in cache.folder.iterdir())
    assert len(names) == 2
    assert all(name.startswith("api.example.com-v1") for name in names)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in cache.folder.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"base_url": 3}', b'{"base_url":"x"}'],
)
def test_a_damaged_file_is_not_used(cache, content):
    cache.write(CachedModelList(URL, 1, ()))
    cache.path(URL).write_bytes(content)
    assert cache.read(URL) is None


def test_a_file_of_another_address_or_of_another_version_is_not_used(cache):
    cache.write(CachedModelList("https://other.example/v1", 1, ()))
    cache.path("https://other.example/v1").rename(cache.path(URL))
    assert cache.read(URL) is None
    cache.write(CachedModelList(URL, 1, (), format=99))
    assert cache.read(URL) is None


def test_a_folder_that_cannot_be_written_only_means_asking_again(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = ModelListCache(tmp_path / "file" / "models")
    cache.write(CachedModelList(URL, 1, ()))
    assert "cannot be stored" in caplog.text
    assert cache.read(URL) is None


@pytest.mark.parametrize(
    ("age", "fresh"),
    [(0, True), (FRESH_SECONDS - 1, True), (FRESH_SECONDS, False), (-60, False)],
)
def test_a_list_is_fresh_for_a_day(age, fresh):
    assert CachedModelList(URL, 1_000_000, ()).is_fresh(1_000_000 + age) is fresh


def test_family_is_the_first_whose_pattern_matches():
    tables = catalog.bundled_tables()
    names = [entry.name for entry in tables.models]
    names += [
        part.strip("(.*)") for family in tables.families for part in family.pattern.split("|")
    ]
    for name in ("", "codex-mini", "qwq-32b", "o3-mini", *names):
        plain = catalog.normalize_name(name)
        matching = (family for family in tables.families if re.match(family.pattern, plain))
        assert catalog.family_of(name) is next(matching, catalog.UNKNOWN_FAMILY), name

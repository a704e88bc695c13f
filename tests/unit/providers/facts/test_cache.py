"""Lists of models on disk: kept for a day, and a damaged file is as good as none."""

import pytest

from hermes.core.usage import Price
from hermes.providers.catalog.catalog import (
    FRESH_SECONDS,
    CachedModelList,
    ModelFacts,
    ModelListCache,
)

URL = "https://api.example.com/v1"
FACTS = ModelFacts(
    id="m", aliases=("n",), context_length=9, price=Price(1, 2, 0.1, 1, "2026-11-15"), tools=False
)


@pytest.fixture
def cache(tmp_path) -> ModelListCache:
    return ModelListCache(tmp_path / "cache" / "models")


def test_what_was_stored_comes_back(cache):
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

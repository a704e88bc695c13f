"""Whatever the damage, salvage ends with a sound store or a `StoreError`."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.core.errors import StoreError
from hermes.store.sqlite.salvage import salvage
from tests.integration.store.rescue.stores import PAGE, assert_sound, make


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make(tmp_path_factory.mktemp("small") / "state.db", messages=60).read_bytes()


# Places near the beginning of a page matter most: there is its header.
places = st.integers(0, 10**6) | st.builds(
    lambda page, offset: page * PAGE + offset, st.integers(0, 60), st.integers(0, 200)
)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(flips=st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=40))
def test_flipped_bytes_anywhere_are_survived(sound, flips):
    data = bytearray(sound)
    for place, change in flips:
        data[place % len(data)] ^= change
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "damaged.db").write_bytes(data)
        with suppress(StoreError):
            report = salvage(folder / "damaged.db", folder / "new.db")
            assert report.messages <= 60 + len(flips)
            assert_sound(folder / "new.db")
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", [b"end_reason", b"message_count", b"CREATE TABLE messages"])
def test_names_in_the_schema_that_are_no_text_any_more_are_survived(sound, tmp_path, name):
    (tmp_path / "damaged.db").write_bytes(sound.replace(name, b"\x8a" + name[1:]))
    with suppress(StoreError):
        salvage(tmp_path / "damaged.db", tmp_path / "new.db")
        assert_sound(tmp_path / "new.db")

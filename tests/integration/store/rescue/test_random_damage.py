"""Whatever the damage, salvage ends with a sound store or a `StoreError`."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.core.errors import StoreError
from hermes.store.sqlite.pages import Unreadable, decode, varint
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


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_a_record_or_unreadable(data, size):
    with suppress(Unreadable):
        record = decode(data, size)
        assert record.is_cut == (len(data) < size)


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_read_as_they_are_written(number):
    assert varint(written(number) + b"rest", 0) == (number, len(written(number)))


def written(number):
    """A variable-length number, by the rules of the file format."""
    number &= 2**64 - 1
    if number >> 56:
        tail, number = bytes([number & 0xFF]), number >> 8
        return bytes(0x80 | number >> shift & 0x7F for shift in range(49, -1, -7)) + tail
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(0x80 | number & 0x7F)
    return bytes(reversed(groups))

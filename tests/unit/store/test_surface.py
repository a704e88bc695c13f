"""The public surface of the package."""

import pytest

from hermes import store


def test_every_public_name_can_be_imported():
    assert [name for name in store.__all__ if getattr(store, name, None) is None] == []


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        _ = store.Missing

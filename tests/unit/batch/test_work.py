"""Keys of items."""

import msgspec

from hermes.batch import item_key, number_items


def test_equal_rows_and_repeats_have_keys_of_their_own() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 2}, {"b": 2, "a": 1}]
    items = list(number_items(rows, "f", repeats=2))
    assert [(i.index, i.repeat, i.occurrence) for i in items] == [
        (0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (2, 0, 1), (2, 1, 1),
    ]  # fmt: skip
    assert len({item.key for item in items}) == 6
    assert items[5].key == item_key({"a": 1, "b": 2}, "f", occurrence=1, repeat=1)


def test_key_depends_on_the_content_and_the_settings_only() -> None:
    key = item_key({"a": 1, "b": {"x": 1, "y": 2}}, "f", 0, 0)
    assert item_key({"b": {"y": 2, "x": 1}, "a": 1}, "f", 0, 0) == key
    others = [item_key({"a": 1}, "f", 0, 0), item_key({"a": 1, "b": {"x": 1, "y": 2}}, "g", 0, 0)]
    assert key not in others
    moved = list(number_items([{"z": 0}, {"a": 1}], "f"))
    assert moved[1].key == item_key({"a": 1}, "f", 0, 0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(moved[1]), type=type(moved[1])) == moved[1]

"""The list of the picker: filter, marked item, preview."""

import asyncio

import pytest

from hermes.core.errors import UsageError
from hermes.tui.picker import Picker, PickerItem
from hermes.tui.text import Paint, width

ITEMS = [
    PickerItem("alpha", "the first letter", 1),
    PickerItem("gamma", "the third letter", 3),
    PickerItem("delta alpha", "two letters", 4),
]


def picker(items=ITEMS, **more) -> Picker[int]:
    options = {"preview": None, "search": None, "selected": None, **more}
    return Picker("Letters", items, options["preview"], options["search"], options["selected"],
                  Paint())  # fmt: skip


def shown(it: Picker[int], columns: int = 60, rows: int = 10) -> list[str]:
    return [line.rstrip() for line in it.list_lines(columns, rows)]


def test_filter_ranks_labels_before_details() -> None:
    it = picker()
    it.filter("al")
    assert shown(it)[0].startswith("▸ alpha ")
    assert shown(it)[1].startswith("  delta alpha ")
    assert len(shown(it)) == 2
    it.filter("third")
    assert shown(it) == ["▸ gamma  the third letter"]
    it.filter("nothing of the kind")
    assert shown(it) == ["  nothing matches"]
    assert it.current is None


def test_arrows_go_round_and_pages_stop_at_the_ends() -> None:
    it = picker()
    it.move(-1)
    assert it.current is not None and it.current.value == 4
    it.move(1)
    assert it.current.value == 1
    it.move(10)
    assert it.current.value == 4
    it.move(-10)
    assert it.current.value == 1


def test_selected_value_is_marked_and_kept_in_sight() -> None:
    many = [PickerItem(f"item {number}", "", number) for number in range(100)]
    it = picker(many, selected=70)
    assert "▸ item 70" in shown(it, rows=5)
    assert len(shown(it, rows=5)) == 5


@pytest.mark.parametrize("columns", [10, 20, 40, 120])
def test_rows_fit_into_the_columns(columns: int) -> None:
    wide = [PickerItem("你好世界" * 10, "x" * 200, 1), PickerItem("short", "a detail", 2)]
    it = picker(wide)
    assert all(width(line) <= columns for line in it.list_lines(columns, 5))
    assert width(it.title_line(columns)) <= columns
    assert width(it.hint_line(columns)) <= columns


async def test_preview_is_loaded_once_and_errors_are_shown_in_it() -> None:
    asked: list[int] = []

    async def preview(value: int) -> str:
        asked.append(value)
        if value == 3:
            raise UsageError("it cannot be read")
        return f"about {value}\nand more words"

    it = picker(preview=preview)
    assert it.preview_lines(40, 2) == ["", ""]
    await asyncio.sleep(0)
    assert it.preview_lines(10, 3) == ["about 1", "and more", "words"]
    assert it.preview_lines(10, 2) == ["about 1", "…"]
    it.move(1)
    it.preview_lines(40, 5)
    await asyncio.sleep(0)
    assert it.preview_lines(40, 1) == ["it cannot be read"]
    assert asked == [1, 3]


def test_preview_cannot_drive_the_terminal() -> None:
    it = picker(preview=lambda _value: "\x1b[2J\x1b[31mred\x1b[0m")
    assert it.preview_lines(40, 1) == ["\\x1b[2J\x1b[31mred\x1b[0m"]


async def test_search_adds_items_that_the_filter_does_not_find() -> None:
    async def search(typed: str) -> list[PickerItem[int]]:
        return [PickerItem("omega", f"contains {typed}", 24), ITEMS[0]]

    it = picker(search=search)
    it.filter("kiwi")
    await asyncio.sleep(0.3)
    assert [line.split()[-2:] for line in shown(it)][-1] == ["contains", "kiwi"]
    assert len(shown(it)) == 2

"""Every row that is left in a damaged file."""

from collections.abc import Iterator

from hermes.store.port import Progress
from hermes.store.sqlite.salvage.btree import cells, is_leaf, leaves
from hermes.store.sqlite.salvage.catalog import read_catalog
from hermes.store.sqlite.salvage.freelist import free_pages
from hermes.store.sqlite.salvage.pages import Pages
from hermes.store.sqlite.salvage.shapes import TABLES, Row, Shape, known_shape

_PAGES_PER_REPORT = 100


class Reader:
    """Reads a file once. `dropped` then says how many rows were seen that cannot be kept."""

    def __init__(self, pages: Pages, shapes: dict[str, list[Shape]]) -> None:
        self.dropped = 0
        self._pages = pages
        self._shapes = shapes
        self._read: set[int] = set()

    def rows(self, progress: Progress) -> Iterator[Row]:
        """First the rows that their table leads to, which are the right ones where a row turns up
        twice; then those of pages that lost their table."""
        pages = self._pages
        free = free_pages(pages)
        for number, shapes in self._in_order(free):
            if number not in self._read:
                yield from self._rows(number, shapes)
            if number % _PAGES_PER_REPORT == 0:
                progress(min(len(self._read), pages.count), pages.count)
        progress(pages.count, pages.count)

    def _in_order(self, free: set[int]) -> Iterator[tuple[int, list[Shape]]]:
        catalog = read_catalog(self._pages, free, TABLES)
        for name, shapes in self._shapes.items():
            if (table := catalog.get(name)) is None:
                continue
            if (exact := known_shape(shapes, table.columns)) is not None:
                shapes.insert(0, exact)
            for number in leaves(self._pages, table.root):
                yield number, shapes
        every = [shape for shapes in self._shapes.values() for shape in shapes]
        for number in range(1, self._pages.count + 1):
            if number not in free and is_leaf(self._pages, number):
                yield number, every

    def _rows(self, number: int, shapes: list[Shape]) -> list[Row]:
        """The rows of a page that has any of these shapes; it is then done with."""
        found = list(cells(self._pages, number))
        fitting = (
            next((row for shape in shapes if (row := shape.row(cell))), None) if cell else None
            for cell in found
        )
        rows = [row for row in fitting if row is not None]
        if rows:
            self._read.add(number)
            self.dropped += len(found) - len(rows)
        return rows

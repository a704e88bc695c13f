"""Tables as lines of equal columns, for platforms that have none."""

from wcwidth import wcswidth

from hermes.gateway.platforms.kit.markdown.nodes import Table, bare


def aligned(table: Table) -> str:
    """Columns side by side, a line under the header."""
    cells = [[bare(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = max(len(row) for row in cells)
    cells = [row + [""] * (columns - len(row)) for row in cells]
    widths = [max(_width(row[column]) for row in cells) for column in range(columns)]
    lines = [_line(row, widths) for row in cells]
    divider = "-+-".join("-" * width for width in widths)
    return "\n".join([lines[0], divider, *lines[1:]])


def _line(row: list[str], widths: list[int]) -> str:
    padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True))
    return " | ".join(padded).rstrip()


def _width(text: str) -> int:
    width = wcswidth(text)
    return len(text) if width < 0 else width

"""Sessions in words for a terminal. Stored text never reaches it raw."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.cli.context import Cli
from hermes.core.ports import SessionInfo
from hermes.util.plain import escaped_json, plain_line
from hermes.util.text import human_duration


def document(cli: Cli, value: Any) -> None:
    """`value` as JSON."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    cli.say(escaped_json(encoded))


def name_of(info: SessionInfo) -> str:
    """The title, or what the user said first."""
    return plain_line(info.title) or plain_line(info.preview)


def label(info: SessionInfo) -> str:
    """The id and, where there is one, the title."""
    title = plain_line(info.title)
    return f"{plain_line(info.id)} ({title})" if title else plain_line(info.id)


def ago(timestamp: float) -> str:
    return f"{human_duration(time.time() - timestamp)} ago"


def table(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """Lines with their columns aligned, those of `numbers` to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

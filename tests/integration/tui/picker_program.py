"""Lets the user choose from a list and prints the choice."""

import asyncio
import sys

from hermes.core.errors import Interrupted
from hermes.tui import PickerItem, pick

ITEMS = [PickerItem(f"item {number}", f"detail {number}", number) for number in range(60)]


async def preview(number: int) -> str:
    await asyncio.sleep(0)
    return "\n".join(f"line {line} of {number}" for line in range(number + 1))


try:
    chosen = str(asyncio.run(pick("Choose one", ITEMS, preview=preview, selected=5)))
except Interrupted:
    chosen = "interrupted"
sys.stdout.write(f"chosen: {chosen}\n")

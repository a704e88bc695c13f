"""Prints numbered lines above an area with an input, and keeps doing so while it is resized."""

import asyncio
import sys

from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.widgets import TextArea

from hermes.tui.area import Area, FrameOutput

LINES, PAUSE = int(sys.argv[1]), float(sys.argv[2])


async def main() -> None:
    field = TextArea(prompt="> ", height=Dimension(min=1), dont_extend_height=True, wrap_lines=True)
    output = FrameOutput.on(sys.stdout)
    told = FormattedTextControl(lambda: f"the status bar at {output.get_size().columns}")
    bar = Window(told, height=1)
    area = Area(output=output, layout=Layout(HSplit([bar, field]), field))

    async def work() -> None:
        await asyncio.sleep(0.2)
        for number in range(LINES):
            area.print_above(f"line {number:04} " + "word " * (number % 30) + "\n")
            await asyncio.sleep(PAUSE)
        area.print_above("all lines printed\n")

    working = asyncio.create_task(work())
    await area.run_async()
    await working


asyncio.run(main())

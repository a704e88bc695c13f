"""An input with everything around it. What is sent is written to a file."""

import asyncio
import json
import sys
import time
from pathlib import Path

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu

from hermes.app.references import complete_reference
from hermes.config.settings import DisplaySettings
from hermes.security import Redactor
from hermes.tui.area import Area, FrameOutput
from hermes.tui.clipboard import ImageAttachments
from hermes.tui.completion import InputCompleter, Offer
from hermes.tui.input import InputField, input_keys, read_keys
from hermes.tui.skins import PLAIN_SKIN, DisplayState
from hermes.tui.text import Depth

HISTORY, SLOW = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0


def models() -> list[Offer]:
    time.sleep(SLOW)
    return [Offer("gpt-large", "a large one"), Offer("small-one", aliases=("so",))]


async def main() -> None:
    display, images = DisplayState(DisplaySettings(), PLAIN_SKIN, Depth.NONE), ImageAttachments()
    completer = InputCompleter(
        folder=Path.cwd(),
        references=lambda fragment: complete_reference(fragment, Path.cwd()),
        more=lambda: [Offer("release-notes", "write the notes of a release", takes_more=True)],
        arguments={"model": models},
    )

    def say(text: str) -> None:
        area.print_above(text + "\n")

    def send(text: str) -> None:
        pictures = [image.url[:22] for image in images.take()]
        whole = entry.pastes.expand(text)
        with HISTORY.with_suffix(".sent").open("a") as file:
            file.write(json.dumps([whole, *pictures]) + "\n")
        say(f"sent {len(whole)} characters")

    entry = InputField(
        display, completer, images,
        history=HISTORY,
        redact=Redactor().redact,
        send=send,
        tell=lambda text: say(f"told: {text}"),
        repaint=lambda: say("repainted"),
    )  # fmt: skip
    bar = ConditionalContainer(
        Window(FormattedTextControl(lambda: ANSI(" ".join(images.labels))), height=1),
        Condition(lambda: bool(images)),
    )
    own = KeyBindings()

    @own.add("c-d")
    def _end(event: KeyPressEvent) -> None:
        event.app.exit()

    area = Area(
        output=FrameOutput.on(sys.stdout),
        layout=Layout(HSplit([bar, entry.area, CompletionsMenu(8, 1)]), entry.area),
        key_bindings=merge_key_bindings([input_keys(entry), own]),
    )
    read_keys(area.input)
    area.timeoutlen, area.ttimeoutlen = 0.2, 0.05
    await area.run_async()


asyncio.run(main())

"""Firmware in C: a driver that loses bytes, long builds, and a ring buffer to be written."""

from tests.compaction.code_material import C, compile_run, grep_hits, source
from tests.compaction.talk import Talk, failed, patch, read, run, search, todo, write
from tests.compaction.text_material import log

NOUNS = "uart dma sensor frame timer adc radio flash"
DRIVER = "drivers/uart/uart_dma.c"


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "Firmware for the STM32F407 board. Hard rules: no dynamic memory (malloc is not linked), "
        "MISRA rule 15.5 (one return) in everything under drivers/safety/, and do not flash the "
        "board in slot 2, a colleague is measuring on it.",
        "no dynamic memory",
        "MISRA rule 15.5",
        "do not flash the board in slot 2",
    )
    talk.says("No malloc, single exit in drivers/safety/, hands off slot 2.")
    talk.task("The ADC reads 3 % too high on channel 4, please check the calibration code.")
    for path in ("drivers/adc/adc.c", "drivers/adc/calibration.c", "board/f407/pins.c"):
        talk.do(read(path, source(random, C, NOUNS, 220)))
    for attempt in range(4):
        talk.do(patch("drivers/adc/calibration.c", f"gain = {attempt};", f"gain = g[{attempt}];"))
        talk.do(run("make BOARD=f407 -j2", compile_run(random, NOUNS, 140)))
        talk.do(run("tools/flash.py --slot 1", log(random, NOUNS, 60)))
    talk.says("The gain of channel 3 was applied to channel 4. Fixed and measured in slot 1.")
    talk.task("Write a note for the lab about it in notes/adc-channel-4.md, half a page.")
    talk.do(write("notes/adc-channel-4.md", "The gain table was read one entry too early.\n" * 12))
    talk.says("The note is written.")
    _bytes(talk)


def _bytes(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Now the real problem: at 921600 baud the UART loses bytes when the radio sends. Replace "
        "the interrupt per byte in drivers/uart/uart_dma.c by circular DMA with a ring buffer in "
        "lib/ring/ring.c (power of two, lock-free, one producer and one consumer), and prove with "
        "tools/soak.py that 10 million bytes get through.",
        "power of two, lock-free",
    )
    talk.needs(DRIVER, "lib/ring/ring.c", "tools/soak.py")
    talk.do(todo("> read the driver", "  ring buffer", "  circular DMA", "  soak test"))
    talk.do(
        read(DRIVER, source(random, C, NOUNS, 340)), read("tools/soak.py", "import serial\n" * 70)
    )
    talk.do(search("USART_IRQHandler", grep_hits(random, "drivers", ".c", "irq", NOUNS, 29)))
    talk.do(
        run("tools/soak.py --slot 1 --bytes 100000", log(random, NOUNS, 220), 1),
        say="Baseline: 412 of 100,000 bytes lost, always while DMA2 stream 5 is busy.",
        values=("412 of 100,000", "DMA2 stream 5"),
    )
    talk.do(write("lib/ring/ring.c", source(random, C, NOUNS, 110)))
    talk.do(write("lib/ring/ring.h", source(random, C, NOUNS, 40)))
    talk.needs("lib/ring/ring.h")
    error = "lib/ring/ring.c:61: error: 'mask' undeclared (first use in this function)"
    for attempt in range(5):
        talk.do(run("make BOARD=f407 -j2", compile_run(random, NOUNS, 160, error), 2))
        talk.do(
            patch("lib/ring/ring.c", f"ring->head += {attempt}", f"ring->head = next({attempt})")
        )
    talk.do(failed("terminal", {"command": "tools/flash.py --slot 2"}, "refused: slot 2 is locked"))
    talk.user("Slot 1 only! I said so at the beginning.", "Slot 1 only!")
    go_on(talk, 0)


def go_on(talk: Talk, part: int) -> None:
    random = talk.random
    path = ("drivers/uart/rx_idle.c", "drivers/radio/tx.c", "board/f407/dma.c", "lib/ring/test.c")[
        part
    ]
    talk.at(path)
    talk.do(read(path, source(random, C, NOUNS, 210)))
    for attempt in range(4):
        old = f"    DMA->CR |= {attempt}u;"
        talk.do(patch(path, old, f"    DMA->CR = (DMA->CR & ~3u) | {attempt}u;", 50 + attempt))
        talk.do(run("make BOARD=f407 -j2", compile_run(random, NOUNS, 130)))
        lost = f"lost {40 - 10 * attempt} of 10000000"
        talk.do(run("tools/soak.py --slot 1", f"{log(random, NOUNS, 90)}\n{lost}", 1))
    if part == 2:
        talk.user("Keep the watchdog enabled while you test.", "Keep the watchdog enabled")

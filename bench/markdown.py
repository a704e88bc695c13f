"""Measure the terminal's Markdown renderer while text streams in.

    python -m bench.markdown [--lines 10000] [--piece 4] [--runs 3]

A long mixed answer arrives in small pieces. Figures are CPU time: of feeding the whole text, and of
one call of `pending`. The result is the minimum over several runs, because other load on the
machine can only increase a figure. The exit code is 1 if a target is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice

from hermes.tui.markdown import MarkdownStream
from hermes.tui.text import Depth, Paint

WIDTH = 100
ROWS = 8
LONG = (
    "A paragraph without line ends that goes on and on, as models write them, with **bold words**,"
    " `code` and a [link](https://example.org/page) in it. "
)
MIXED = f"""\
## What was found

The cause is in `store.py`: the **lock** is taken *after* the file was read, so two processes
can both believe that they are the first. See [the page](https://example.org/locks) for details.

{LONG * 4}

- take the lock before reading, not after
- keep it until the file is written
    - also when writing fails
    - 中文的说明也会出现在这里，需要正确换行
1. run the tests
2. look at the log

```python
def locked(path: Path, *, timeout: float = 5.0) -> Iterator[None]:
    \"\"\"Hold the lock of a file.

    Waits at most `timeout` seconds.
    \"\"\"
    started = time.monotonic()
    while not try_lock(path):  # another process has it
        if time.monotonic() - started > timeout:
            raise Busy(f"{{path}} is in use", hint="try again later")
        time.sleep(0.01)
    try:
        yield
    finally:
        unlock(path)
```

> A quote, **strong** and not so strong.

| setting | default | meaning |
|---------|--------:|---------|
| `lock_timeout` | 5 | seconds to wait before giving up |
| `lock_file` | none | where the lock lives |

```js
/* a comment
   over lines */
const answer = items.filter((each) => each.ok).map((each) => `${{each.name}}: ${{each.value}}`);
export default answer;
```
"""
CODE = "```python\n" + "\n".join(MIXED.split("```python\n")[1].split("```")[0].splitlines() * 800)
PROSE = LONG * 4000
UNCLOSED = "word **never closed and `neither is this, [or that " * 12000
TARGETS = {"mixed": 1.5}


def feed_seconds(text: str, piece: int) -> float:
    stream = MarkdownStream(Paint(depth=Depth.INDEXED), WIDTH)
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    began = time.process_time()
    for each in pieces:
        stream.feed(each)
    stream.finish()
    return time.process_time() - began


def pending_ms(text: str, piece: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of one call of `pending`."""
    stream = MarkdownStream(Paint(depth=Depth.INDEXED), WIDTH)
    times = []
    for at in range(0, min(len(text), 60_000), piece):
        stream.feed(text[at : at + piece])
        began = time.process_time()
        stream.pending(ROWS)
        times.append(1000 * (time.process_time() - began))
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def least(measure: Callable[[], float], runs: int) -> float:
    return min(measure() for _ in range(runs))


def main() -> int:
    parser = argparse.ArgumentParser(description="measure the streaming markdown of the terminal")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--piece", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    lines = list(islice(cycle(MIXED.splitlines()), args.lines))
    texts = {
        "mixed": "\n".join(lines),
        "mixed, half": "\n".join(lines[: args.lines // 2]),
        "one code block": CODE,
        "one paragraph": PROSE,
        "unclosed markup": UNCLOSED,
    }
    missed = False
    print(f"{'text':<16} {'lines':>7} {'KB':>6} {'CPU s':>7} {'pending ms':>11} {'worst 1 %':>10}")
    for name, text in texts.items():
        seconds = least(partial(feed_seconds, text, args.piece), args.runs)
        middle, worst = pending_ms(text, args.piece)
        missed = missed or seconds > TARGETS.get(name, seconds)
        print(
            f"{name:<16} {text.count(chr(10)) + 1:>7} {len(text) // 1000:>6} {seconds:>7.2f}"
            f" {middle:>11.3f} {worst:>10.3f}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

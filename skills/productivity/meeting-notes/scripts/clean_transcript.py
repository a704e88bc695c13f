"""Turn a transcript of a meeting into readable text: WebVTT, SubRip (.srt) or plain text.

Cues of one speaker are joined, captions that roll are not repeated, marks are removed. Speakers are
taken from <v Name> tags and from "Name: text". Plain text with "Name: text" or
"[00:01:02] Name: text" works too.

  clean_transcript.py meeting.vtt --times                  [00:01:02] Ann: We start …
  clean_transcript.py meeting.vtt --stats                  who spoke how much
  clean_transcript.py meeting.vtt --parts 12000 --out parts/   files that fit into a prompt

Exit code: 0 done, 1 there is no text, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import html
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})(?:[.,](\d{1,3}))?"
CUE = re.compile(rf"^\s*{TIME}\s*-->\s*{TIME}.*$")
STAMP = re.compile(rf"^\s*[\[(]?{TIME}[\])]?\s*[-–:]?\s*")
VOICE = re.compile(r"<v(?:\.[\w.-]+)?\s+([^>]+)>")
TAGS = re.compile(r"<[^>]*>|\{\\an?\d\}")
NAMED = re.compile(
    r"^([A-ZÀ-Ž][\w.'’À-ž-]*(?: [\w.'’()À-ž-]+){0,4}|SPEAKER_\d+|Speaker \d+):\s+(.*)$", re.S
)
NOISE = re.compile(r"\b(?:um+|uh+|erm*|ähm?|hm+)\b[,.]?\s*", re.IGNORECASE)
PAUSE = 20.0
"""Seconds of silence after which the same speaker starts a new paragraph."""


class Problem(Exception):
    """Something the user has to correct."""


@dataclass
class Turn:
    """What one person said without a break."""

    start: float | None
    end: float | None
    speaker: str
    text: str


def seconds(parts: tuple[str, ...]) -> float:
    hours, minutes, rest, part = parts
    fraction = float(f"0.{part}") if part else 0.0
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(rest) + fraction


def clock(value: float | None) -> str:
    whole = int(value or 0)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def cues(text: str) -> Iterator[Turn]:
    """Each cue of WebVTT or SubRip; a cue may hold several voices."""
    for block in re.split(r"\n\s*\n", text):
        rows = block.split("\n")
        place = next((n for n, row in enumerate(rows) if CUE.match(row)), None)
        if place is None:
            continue  # WEBVTT, NOTE, STYLE
        times = CUE.match(rows[place])
        assert times
        start, end = seconds(times.groups()[:4]), seconds(times.groups()[4:])
        said = "\n".join(rows[place + 1 :])
        pieces = VOICE.split(said)
        voices = [("", pieces[0]), *((n, t) for n, t in _pairs(pieces[1:]))]
        for name, words in voices:
            for line in words.split("\n") if not name else [words]:
                yield from spoken(start, end, name, line)


def _pairs(items: list[str]) -> Iterator[tuple[str, str]]:
    for place in range(0, len(items) - 1, 2):
        yield items[place], items[place + 1]


def spoken(start: float | None, end: float | None, name: str, words: str) -> Iterator[Turn]:
    clean = " ".join(html.unescape(TAGS.sub("", words)).split())
    named = NAMED.match(clean) if not name else None
    if named:
        name, clean = named[1], named[2]
    if clean and not re.fullmatch(r"-+", clean):
        yield Turn(start, end, " ".join(name.split()), clean.removeprefix("- "))


def lines(text: str) -> Iterator[Turn]:
    for row in text.split("\n"):
        found = STAMP.match(row)
        start = seconds(found.groups()) if found else None
        yield from spoken(start, start, "", row[found.end() :] if found else row)


def joined(turns: Iterator[Turn]) -> list[Turn]:
    """Repeated captions dropped, turns of one speaker put together."""
    found: list[Turn] = []
    recent: list[str] = []
    for turn in turns:
        if turn.text in recent:
            continue
        recent = [*recent[-2:], turn.text]
        last = found[-1] if found else None
        if last and follows(last, turn):
            last.text += " " + turn.text
            last.end = turn.end
        else:
            found.append(turn)
    return found


def follows(last: Turn, turn: Turn) -> bool:
    same = turn.speaker in ("", last.speaker)
    quiet = (turn.start or 0) - (last.end or 0) > PAUSE and turn.start is not None
    return same and not quiet


def decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def read(file: Path) -> list[Turn]:
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    if b"\0" in data[:2000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Problem(f"{file} is no text; a recording must be transcribed first")
    text = decoded(data).replace("\r\n", "\n")
    timed = text.startswith("WEBVTT") or any(CUE.match(row) for row in text.split("\n"))
    return joined(cues(text) if timed else lines(text))


def shown(turn: Turn, options: argparse.Namespace) -> str:
    stamp = f"[{clock(turn.start)}] " if options.times and turn.start is not None else ""
    name = f"{turn.speaker}: " if turn.speaker else ""
    text = NOISE.sub("", turn.text) if options.tidy else turn.text
    return f"{stamp}{name}{text}"


def stats(turns: list[Turn]) -> Iterator[str]:
    words: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for turn in turns:
        words[turn.speaker or "(unknown)"] += len(turn.text.split())
        count[turn.speaker or "(unknown)"] += 1
    total = sum(words.values())
    ends = [turn.end for turn in turns if turn.end is not None]
    if ends:
        yield f"length {clock(max(ends))}"
    for name, number in words.most_common():
        yield f"{name}: {number} words ({100 * number // total} %), {count[name]} turns"


def in_parts(rows: list[str], size: int) -> Iterator[str]:
    part: list[str] = []
    for row in rows:
        if part and sum(map(len, part)) + len(part) + len(row) > size:
            yield "\n".join(part) + "\n"
            part = []
        part.append(row)
    if part:
        yield "\n".join(part) + "\n"


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def write_parts(rows: list[str], size: int, folder: Path) -> None:
    """Never beside the parts of another transcript: they would be read as one."""
    if any(folder.glob("part-*.txt")):
        raise Problem(f"{folder} holds parts already: move them away, or give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(in_parts(rows, size), 1):
        file = folder / f"part-{number:02}.txt"
        file.write_text(part, encoding="utf-8")
        print(f"{file}: {len(part)} characters")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help=".vtt, .srt or text; - is standard input")
    parser.add_argument("--times", action="store_true", help="put the time before each turn")
    parser.add_argument("--tidy", action="store_true", help="leave out um, uh and the like")
    parser.add_argument("--stats", action="store_true", help="who spoke how much, instead of text")
    parser.add_argument(
        "--parts", type=positive, metavar="CHARACTERS", help="write files of this size"
    )
    parser.add_argument("--out", type=Path, default=Path("parts"), help="folder for --parts")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        turns = read(options.file)
        if not turns:
            print("there is no text in it", file=sys.stderr)
            return 1
        rows = [shown(turn, options) for turn in turns]
        if options.parts:
            write_parts(rows, options.parts, options.out)
            return 0
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(stats(turns) if options.stats else rows))
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

"""Turn captions of a video (YouTube json3, WebVTT, SubRip) into readable text with times.

  captions.py video.en.json3
  captions.py video.en.vtt --every 60 --video dQw4w9WgXcQ      (links that jump to the place)
  captions.py video.en.vtt --search "neural network"
  captions.py --tracks video.json       (from yt-dlp --dump-json: which captions, made by whom)
Captions that roll, and repeat their last line, are joined.
Exit code: 0 done, 1 nothing found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import html
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CUE = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{3})\s*-->")
TAG = re.compile(r"<[^>]*>|\{\\an?\d\}")


class Problem(Exception):
    """Something the user has to correct."""


def from_json3(data: str) -> Iterator[tuple[float, str]]:
    try:
        for event in json.loads(data).get("events", []):
            text = "".join(segment.get("utf8", "") for segment in event.get("segs", []))
            if text.strip():
                yield event.get("tStartMs", 0) / 1000, " ".join(text.split())
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise Problem("this is no json3 file of captions") from None


def from_cues(data: str) -> Iterator[tuple[float, str]]:
    last: list[str] = []
    for block in re.split(r"\n\s*\n", data):
        found = CUE.search(block)
        if not found:
            continue
        hours, minutes, seconds, part = (int(each or 0) for each in found.groups())
        start = hours * 3600 + minutes * 60 + seconds + part / 1000
        body = block[block.index("\n", found.end()) :] if "\n" in block[found.end() :] else ""
        rows = [" ".join(html.unescape(TAG.sub("", row)).split()) for row in body.splitlines()]
        rows = [row for row in rows if row]
        fresh = [row for row in rows if row not in last]
        last = rows or last
        if fresh:
            yield start, " ".join(fresh)


def pieces(data: str) -> list[tuple[float, str]]:
    found = list(from_json3(data) if data.lstrip().startswith("{") else from_cues(data))
    if not found:
        raise Problem("there are no captions in it")
    return found


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def place(start: float, video: str) -> str:
    if not video:
        return f"[{clock(start)}]"
    return f"[{clock(start)}](https://youtu.be/{video}?t={int(start)})"


def paragraphs(found: list[tuple[float, str]], every: float) -> Iterator[tuple[float, str]]:
    start = found[0][0]
    words: list[str] = []
    for when, text in found:
        if words and when - start >= every:
            yield start, " ".join(words)
            start, words = when, []
        words.append(text)
    yield start, " ".join(words)


def tracks(data: str) -> Iterator[str]:
    """One line for each caption track of `yt-dlp --dump-json`, those made by people first."""
    try:
        video = json.loads(data)
        written, automatic = (video.get(name) or {} for name in ("subtitles", "automatic_captions"))
    except (ValueError, AttributeError, RecursionError):
        raise Problem("this is no output of yt-dlp --dump-json") from None
    spoken = str(video.get("language") or "")
    for code in sorted(set(written) - {"live_chat"}):
        yield f"{code}  made by people"
    for code in sorted(automatic):
        if code.endswith("-orig") or code == spoken:
            yield f"{code}  automatic, of the spoken language"
    rest = sum(not code.endswith("-orig") and code != spoken for code in automatic)
    if rest:
        yield f"{rest} more are automatic, most of them machine translations"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--every", type=float, default=30, help="seconds of a paragraph (30)")
    parser.add_argument("--video", default="", help="the id of the video, for links")
    parser.add_argument("--search", help="only paragraphs with this text")
    parser.add_argument("--tracks", action="store_true", help="list the tracks of a JSON file")
    parser.add_argument("--plain", action="store_true", help="without times")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        data = options.file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
        if options.tracks:
            rows = list(tracks(data))
            print("\n".join(rows) or "there are no captions")
            return 0 if rows else 1
        found = list(paragraphs(pieces(data), options.every))
    except UnicodeError:
        print(f"error: {options.file} is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    word = (options.search or "").lower()
    kept = [(start, text) for start, text in found if word in text.lower()]
    for start, text in kept:
        print(text if options.plain else f"{place(start, options.video)} {text}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

"""Turn speech into text on this machine, with the package faster-whisper.

  transcribe.py interview.mp3            interview.txt, one line for each passage
  transcribe.py talk.mp4 --format srt vtt --language en --model small
  transcribe.py call.m4a --words "Hermes, Kubernetes, Müller"     names that it shall expect

Reads every format that ffmpeg knows. The first use of a model downloads it (tiny 75 MB, small
0.5 GB, large-v3-turbo 1.6 GB). Exit code: 0 done, 1 no speech was found, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FORMATS = ("txt", "srt", "vtt", "json")
DOUBTFUL = -1.0
"""The mean log probability below which a passage is worth listening to again."""


class Problem(Exception):
    """Something the user has to correct."""


def clock(seconds: float, mark: str = ".") -> str:
    thousandths = round(seconds * 1000)
    hours, rest = divmod(thousandths, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{mark}{rest % 1000:03}"


def written(kind: str, found: list[Any]) -> str:
    if kind == "txt":
        return "".join(f"[{clock(each.start)[:8]}] {each.text.strip()}\n" for each in found)
    if kind == "json":
        rows = [
            {"start": round(each.start, 2), "end": round(each.end, 2), "text": each.text.strip(),
             "doubtful": each.avg_logprob < DOUBTFUL}
            for each in found
        ]  # fmt: skip
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    mark = "," if kind == "srt" else "."
    cues = [
        f"{number}\n{clock(each.start, mark)} --> {clock(each.end, mark)}\n{each.text.strip()}\n"
        for number, each in enumerate(found, 1)
    ]
    return ("WEBVTT\n\n" if kind == "vtt" else "") + "\n".join(cues)


def watched(segments: Iterable[Any], length: float) -> Iterator[Any]:
    """The same passages; says every minute of the recording how far it is."""
    told = 0.0
    for each in segments:
        if each.end - told >= 60:
            told = each.end
            print(f"{clock(each.end)[:8]} of {clock(length)[:8]}", file=sys.stderr)
        yield each


def heard(options: argparse.Namespace) -> tuple[list[Any], Any]:
    """The passages, and what is known about the recording."""
    try:
        from faster_whisper import WhisperModel
    except ImportError:
        raise Problem("faster-whisper is missing: pip install faster-whisper") from None
    try:
        model = WhisperModel(options.model, device=options.device, compute_type=options.compute)
        segments, info = model.transcribe(
            str(options.file),
            language=options.language or None,
            task="translate" if options.english else "transcribe",
            vad_filter=True,
            initial_prompt=options.words or None,
            condition_on_previous_text=False,
        )
        return list(watched(segments, info.duration)), info
    except (RuntimeError, ValueError, OSError) as error:
        raise Problem(f"{options.file}: {error}") from None
    except Exception as error:
        # Errors of the decoder (av) and of the model hub have classes of their own.
        if not type(error).__module__.startswith(("av", "huggingface_hub")):
            raise
        raise Problem(f"{options.file}: {error}") from None


def work(options: argparse.Namespace) -> int:
    if not options.file.is_file():
        raise Problem(f"there is no file {options.file}")
    stem = options.out or options.file.with_suffix("")
    targets = {kind: Path(f"{stem}.{kind}") for kind in options.format}
    for target in targets.values():
        if target.exists() and not options.force:
            raise Problem(f"{target} is already there; use --force to replace it")
    found, info = heard(options)
    if not found:
        print("no speech was found", file=sys.stderr)
        return 1
    for kind, target in targets.items():
        target.write_text(written(kind, found), encoding="utf-8")
        print(target)
    doubtful = [each for each in found if each.avg_logprob < DOUBTFUL]
    sure = f"{info.language} ({info.language_probability:.0%})"
    print(f"{len(found)} passages, {clock(info.duration)[:8]}, language {sure}")
    for each in doubtful[:10]:
        print(f"?? {clock(each.start)[:8]} {each.text.strip()}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="sound or video")
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=["txt"])
    parser.add_argument(
        "--model", default="small", help="tiny, base, small, medium, large-v3-turbo"
    )
    parser.add_argument("--language", default="", help="such as en (found by itself)")
    parser.add_argument("--english", action="store_true", help="translate into English")
    parser.add_argument("--words", default="", help="names and terms that occur")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--compute", default="default", help="int8 is small and fast on a CPU")
    parser.add_argument("--out", type=Path, help="the name without its ending")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return work(options)
    except Problem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())

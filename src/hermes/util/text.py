"""Small, pure operations on text for people and for files."""

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_DURATION = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def clean(text: str) -> str:
    """`text` without NUL and lone surrogates, which no file, database or endpoint can take."""
    if text.isascii():
        return text.replace("\x00", "")
    return _UNSTORABLE.sub("", text)


def cut_middle(text: str, limit: int) -> str:
    """`text` with at most `limit` characters kept: its head, a line that says what is missing,
    and its tail."""
    missing = len(text) - limit
    if missing <= 0:
        return text
    head = limit - limit // 2
    return f"{text[:head]}\n[... {missing:,} characters left out ...]\n{text[head + missing :]}"


def many(number: int, thing: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def human_size(count: int) -> str:
    """`512 B`, `1.5 kB`, `491.0 MB`: powers of 1000, as disks and downloads are sold."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def human_duration(seconds: float) -> str:
    """The largest unit that fits and the next one: `42s`, `5m 3s`, `2h 10m`, `3d 4h`."""
    rest = max(0, int(seconds))
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        amount, rest = divmod(rest, _SECONDS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def parse_duration(text: str) -> int | None:
    """Seconds of `30s`, `5m`, `2h` or `1d`; None when it is none of these."""
    match = _DURATION.fullmatch(text.strip().lower())
    return int(match[1]) * _SECONDS[match[2]] if match else None

"""Facts about pictures without any library: kind, size in pixels, bytes, orientation, place data.

Knows PNG, JPEG, GIF, WebP, BMP, TIFF, ICO, SVG, HEIC and AVIF. The kind is found by looking into
the file; a name that says something else is reported, as are rotated photos and those that tell
where they were taken.

  image_info.py photo.jpg *.png            image_info.py photos/ --json
Exit code: 0 all were read, 1 a file is no picture that is known, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUFFIXES = {
    "png": {".png"},
    "jpeg": {".jpg", ".jpeg", ".jpe", ".jfif"},
    "gif": {".gif"},
    "webp": {".webp"},
    "bmp": {".bmp", ".dib"},
    "tiff": {".tif", ".tiff"},
    "ico": {".ico"},
    "svg": {".svg"},
    "heic": {".heic", ".heif"},
    "avif": {".avif"},
}
KNOWN = {suffix for group in SUFFIXES.values() for suffix in group}
ORIENTATION, WIDTH, HEIGHT, GPS, MADE = 0x0112, 0x0100, 0x0101, 0x8825, 0x0132
TURNED = {3: "turned by 180", 6: "turned right", 8: "turned left"}
NO_FRAME = {0xC4, 0xC8, 0xCC}
COLOURS = {0: "grey", 2: "rgb", 3: "palette", 4: "grey with alpha", 6: "rgb with alpha"}


class Unknown(Exception):
    """No picture that is known, or one that is damaged."""


def tiff_tags(data: bytes) -> dict[int, Any]:
    """The tags of the first folder of a TIFF or of EXIF."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if not order:
        raise Unknown("damaged TIFF or EXIF data")
    (place,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, place)
    found: dict[int, Any] = {}
    for number in range(min(count, 500)):
        tag, kind, length = struct.unpack_from(f"{order}HHI", data, place + 2 + 12 * number)
        at = place + 10 + 12 * number
        if kind == 3:
            (found[tag],) = struct.unpack_from(f"{order}H", data, at)
        elif kind == 4:
            (found[tag],) = struct.unpack_from(f"{order}I", data, at)
        elif kind == 2 and length > 4:
            (start,) = struct.unpack_from(f"{order}I", data, at)
            found[tag] = data[start : start + length].rstrip(b"\0").decode("ascii", "replace")
    return found


def exif(data: bytes) -> dict[str, Any]:
    try:
        tags = tiff_tags(data)
    except (struct.error, Unknown):
        return {}
    facts: dict[str, Any] = {}
    if tags.get(ORIENTATION, 1) in TURNED:
        facts["orientation"] = TURNED[tags[ORIENTATION]]
    if GPS in tags:
        facts["gps"] = True
    if MADE in tags:
        facts["made"] = tags[MADE]
    return facts


def png(data: bytes) -> dict[str, Any]:
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    facts = {"width": width, "height": height, "colour": f"{COLOURS.get(colour, '?')} {depth} bit"}
    place = 8
    while place + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind = data[place + 4 : place + 8]
        if kind == b"acTL":
            facts["frames"] = struct.unpack_from(">I", data, place + 8)[0]
        if kind == b"eXIf":
            facts.update(exif(data[place + 8 : place + 8 + length]))
        place += 12 + length
    return facts


def jpeg(data: bytes) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        mark = data[place + 1]
        if mark == 0xFF or mark == 0x01 or 0xD0 <= mark <= 0xD8:
            place += 1 if mark == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, place + 2)
        body = data[place + 4 : place + 2 + length]
        if mark == 0xE1 and body.startswith(b"Exif\0\0"):
            facts.update(exif(body[6:]))
        if 0xC0 <= mark <= 0xCF and mark not in NO_FRAME:
            height, width, parts = struct.unpack_from(">HHB", body, 1)
            colour = {1: "grey", 3: "colour", 4: "cmyk"}.get(parts, "?")
            return {"width": width, "height": height, "colour": colour, **facts}
        place += 2 + length
    raise Unknown("damaged JPEG: no size in it")


def gif(data: bytes) -> dict[str, Any]:
    width, height = struct.unpack_from("<HH", data, 6)
    frames = len(re.findall(rb"\x00\x21\xf9\x04.{4}\x00[\x2c\x21]", data, re.DOTALL))
    return {"width": width, "height": height, "frames": max(frames, 1)}


def webp(data: bytes) -> dict[str, Any]:
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return {"width": width, "height": height, "frames": max(data.count(b"ANMF"), 1)}
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return {"width": (bits & 0x3FFF) + 1, "height": (bits >> 14 & 0x3FFF) + 1}
    width, height = struct.unpack_from("<HH", data, 26)
    return {"width": width & 0x3FFF, "height": height & 0x3FFF}


def bmp(data: bytes) -> dict[str, Any]:
    width, height = struct.unpack_from("<ii", data, 18)
    return {"width": width, "height": abs(height)}


def tiff(data: bytes) -> dict[str, Any]:
    tags = tiff_tags(data)
    return {"width": tags[WIDTH], "height": tags[HEIGHT], **exif(data)}


def ico(data: bytes) -> dict[str, Any]:
    (count,) = struct.unpack_from("<H", data, 4)
    sizes = [(data[6 + 16 * n] or 256, data[7 + 16 * n] or 256) for n in range(count)]
    width, height = max(sizes)
    return {"width": width, "height": height, "frames": count}


def svg(data: bytes) -> dict[str, Any]:
    found = re.search(r"<svg\b[^>]*>", data[:20000].decode("utf-8", "replace"), re.DOTALL)
    head = found[0] if found else ""
    facts: dict[str, Any] = {}
    for name in ("width", "height"):
        size = re.search(rf"\s{name}=[\"']([\d.]+)(?:px)?[\"']", head)
        facts[name] = float(size[1]) if size else None
    box = re.search(r"viewBox=[\"']([^\"']+)", head)
    if box and None in facts.values():
        _, _, width, height = (float(part) for part in re.split(r"[\s,]+", box[1].strip()))
        facts = {"width": facts["width"] or width, "height": facts["height"] or height}
    return facts


def boxed(data: bytes) -> dict[str, Any]:
    """HEIC and AVIF: the largest of the sizes that are named."""
    sizes = [
        struct.unpack_from(">II", data, found.end() + 4)
        for found in re.finditer(rb"\x00\x00\x00\x14ispe", data)
    ]
    if not sizes:
        raise Unknown("no size in it")
    width, height = max(sizes)
    return {"width": width, "height": height}


def kind_of(data: bytes) -> str:
    if data[4:8] == b"ftyp":
        brands = data[8:40]
        if b"avif" in brands:
            return "avif"
        return "heic" if any(b in brands for b in (b"heic", b"heix", b"mif1", b"hevc")) else ""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    starts = {
        "png": b"\x89PNG\r\n\x1a\n",
        "jpeg": b"\xff\xd8\xff",
        "gif": b"GIF8",
        "bmp": b"BM",
        "ico": b"\0\0\1\0",
    }
    for kind, start in starts.items():
        if data.startswith(start):
            return kind
    if data[:4] in (b"II*\0", b"MM\0*"):
        return "tiff"
    return "svg" if re.search(rb"<svg[\s>]", data[:4000]) else ""


READERS = {
    "png": png,
    "jpeg": jpeg,
    "gif": gif,
    "webp": webp,
    "bmp": bmp,
    "tiff": tiff,
    "ico": ico,
    "svg": svg,
    "heic": boxed,
    "avif": boxed,
}


def look(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    kind = kind_of(data)
    if not kind:
        raise Unknown("no picture that is known" if data else "the file is empty")
    try:
        facts = READERS[kind](data)
    except (struct.error, IndexError, KeyError, ValueError):
        raise Unknown(f"a damaged {kind} file") from None
    if facts.get("frames") == 1:
        del facts["frames"]
    if file.suffix.lower() not in SUFFIXES[kind]:
        facts["named"] = f"{file.suffix or 'without suffix'}, but it is {kind}"
    return {"file": str(file), "kind": kind, **facts, "bytes": len(data)}


def line(facts: dict[str, Any]) -> str:
    parts = [f"{facts['file']}: {facts['kind']} {facts['width']:g}x{facts['height']:g}"]
    parts.append(f"{facts['bytes']} bytes")
    parts += [str(facts[name]) for name in ("colour", "orientation", "made") if name in facts]
    if "frames" in facts:
        parts.append(f"{facts['frames']} frames")
    if facts.get("gps"):
        parts.append("tells the place (GPS)")
    if "named" in facts:
        parts.append(f"named {facts['named']}")
    return ", ".join(parts)


def files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            inside = (each for each in sorted(path.rglob("*")) if each.suffix.lower() in KNOWN)
            yield from (each for each in inside if each.is_file())
        else:
            yield path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="pictures, or folders of them")
    parser.add_argument("--json", action="store_true", help="one object for each line")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    result = 0
    found = list(files(options.paths))
    if not found:
        print("there are no pictures in it", file=sys.stderr)
        return 1
    for file in found:
        try:
            facts = look(file)
            if not options.json and not (facts["width"] and facts["height"]):
                facts.update(width=facts["width"] or 0, height=facts["height"] or 0)
            print(json.dumps(facts, ensure_ascii=False) if options.json else line(facts))
        except Unknown as error:
            print(f"{file}: {error}", file=sys.stderr)
            result = max(result, 1)
        except BrokenPipeError:
            raise
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            result = 2
    return result


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

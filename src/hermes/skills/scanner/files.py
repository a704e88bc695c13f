"""What the name and the first bytes of a file say, before anything in it is read."""

import re
from collections.abc import Iterator
from typing import Final

from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Rule

LEAVES = Rule(
    "name_leaves_folder",
    Category.PATH_TRAVERSAL,
    "critical",
    "the name of the file leads out of the skill's folder",
)
ODD_NAME = Rule(
    "odd_name",
    Category.HIDDEN_CHARACTERS,
    "high",
    "the name holds characters that cannot be seen or that turn the text around",
)
PROGRAM = Rule("program", Category.BINARY, "high", "a compiled program: nobody can read it")
COMPILED = Rule("compiled_python", Category.BINARY, "high", "compiled Python: nobody can read it")
ARCHIVE = Rule("archive", Category.BINARY, "medium", "an archive: what is in it was not scanned")
UNKNOWN_DATA = Rule("unknown_data", Category.BINARY, "medium", "data of an unknown kind")
DISGUISED = Rule("disguised", Category.BINARY, "high", "a script under the name of a picture")

_ODD = re.compile(
    "[\x00-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_PROGRAMS: Final = (
    b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm", b"dex\n", b"!<arch>\n",
)  # fmt: skip
_ARCHIVES: Final = (
    b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!",
    b"\x28\xb5\x2f\xfd", b"xar!", b"MSCF", b"\x1f\x9d",
)  # fmt: skip
_DOCUMENTS: Final = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".dotx", ".xltx")
"""Archives by their form, documents by their use."""
_HARMLESS: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-", b"\0\0\1\0", b"OTTO", b"wOFF", b"wOF2",
    b"\0\1\0\0", b"true", b"ttcf", b"ID3", b"OggS", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"BM",
    b"SQLite format 3\0", b"II*\0", b"MM\0*", b"\x1aE\xdf\xa3", b"8BPS", b"PAR1",
)  # fmt: skip
"""Pictures, fonts, sound, films, tables: nothing in them is run."""
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".bmp")
_COMPILED_PYTHON = re.compile(rb"..\r\n[\0-\x03]\0\0\0", re.DOTALL)
_LOOKED_AT: Final = 8_192


def about_name(name: str) -> Iterator[Rule]:
    plain = name.replace("\\", "/")
    parts = plain.split("/")
    if not name or ".." in parts or plain.startswith(("/", "~")) or re.match(r"[A-Za-z]:", plain):
        yield LEAVES
    if _ODD.search(name):
        yield ODD_NAME


def about_bytes(name: str, data: bytes) -> Rule | None:
    """What makes the file unreadable; None for text and for harmless data."""
    lowered = name.lower()
    if lowered.endswith(_PICTURES) and data.startswith((b"#!", b"<?php", b"import ", b"\x7fELF")):
        return DISGUISED
    if data.startswith(_PROGRAMS) and not _is_text(data):
        return PROGRAM
    if lowered.endswith((".pyc", ".pyo")) or _COMPILED_PYTHON.match(data):
        return COMPILED
    if data.startswith(_ARCHIVES) or data[257:262] == b"ustar":
        return None if lowered.endswith(_DOCUMENTS) else ARCHIVE
    if is_binary(data) and not data.startswith(_HARMLESS) and data[4:8] != b"ftyp":
        return UNKNOWN_DATA
    return None


def is_binary(data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16 is text
        return False
    return b"\0" in data[:_LOOKED_AT] or (data.startswith(_HARMLESS) and not _is_text(data))


def _is_text(data: bytes) -> bool:
    """`BM` and `MZ` also begin words."""
    start = data[:_LOOKED_AT]
    return b"\0" not in start and len(start.decode("utf-8", "ignore").encode()) >= len(start) - 3


def text_of(data: bytes) -> str:
    """Whatever the bytes are; what is no text becomes replacement characters."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")

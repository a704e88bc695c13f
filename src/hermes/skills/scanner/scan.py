"""A scan: every file is taken apart, every piece is judged, and the findings are put together."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

import msgspec

from hermes.security.injection import explain
from hermes.security.redaction import Redactor
from hermes.skills.scanner import pieces, signatures
from hermes.skills.scanner import text as scan_text
from hermes.skills.scanner.pieces import Piece, is_prose
from hermes.skills.scanner.pieces import pieces as pieces_pieces
from hermes.skills.scanner.python import python
from hermes.skills.scanner.report import (
    SEVERITIES,
    Category,
    Finding,
    Hit,
    Report,
    Rule,
    at_least,
    softened,
    verdict_of,
)
from hermes.skills.scanner.rules import INSTALL_CODE, PACKAGE, TYPOSQUAT
from hermes.skills.scanner.shell import dangers, shell
from hermes.skills.scanner.signatures import startup_hits
from hermes.skills.scanner.text import declared, hidden, injections, links, prose, secrets, stray

# What the name and the first bytes of a file say, before anything in it is read.

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


_C: Final = Category
TOO_LONG = Rule("too_long", _C.BINARY, "medium", "too long: only its beginning and end were read")
TOO_MUCH = Rule("too_much", _C.BINARY, "medium", "too much: this file was not read")
TOO_MANY = Rule("too_many", _C.BINARY, "medium", "too many files: the rest was not read")
MUCH_DATA = Rule("much_data", _C.BINARY, "low", "much data: only its beginning and end were read")
HIDDEN_COMMAND = Rule(
    "encoded_attack", _C.OBFUSCATION, "critical", "hides something dangerous in code"
)
HIDDEN_PROGRAM = Rule("encoded_program", _C.OBFUSCATION, "critical", "hides a program in text")
NO_PYTHON = Rule("no_python", _C.OBFUSCATION, "medium", "a script of Python that cannot be read")
AT_INSTALL = Rule("install_script", _C.SUPPLY_CHAIN, "critical", "attacks while it is installed")

LONGEST: Final = 384 * 1024
"""Bytes of one file that are read; the rest of it only counts as long."""
MOST: Final = 2 * 1024 * 1024
"""Bytes of a skill that are read, the files that matter most first; see `_WEIGHTS`."""
_WEIGHTS: Final = {".md": 3, ".py": 4, ".sh": 6, ".txt": 3, "": 6}
"""Reading instructions and scripts takes longer than reading data."""
MOST_PIECES: Final = 3_000
"""Blocks and commands of a skill that are judged."""
MOST_PROGRAMS: Final = 10_000
"""Programs that the scripts of a skill start, roughly. When there are more, only `SHORT` scripts
and the beginnings of others are read."""
SHORT: Final = 4_000
MOST_INLINE: Final = 300
"""Commands that code starts, and code that commands run, in one piece."""
MOST_FILES: Final = 1_000
MOST_FINDINGS: Final = 200
PER_RULE: Final = 5
"""Findings of one rule in one file."""
SHOWN: Final = 120
_DATA: Final = (
    ".json",
    ".csv",
    ".tsv",
    ".xml",
    ".svg",
    ".geojson",
    ".jsonl",
    ".ndjson",
    ".lock",
    ".log",
    ".ipynb",
)
_UNSEEN = re.compile(
    "[^\x20-\x7e\xa1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff\uf900-\ufaff\U0001f000-\U0001faff]"
)


_ALSO_IN_SHELL: Final = (signatures.SOCKET_SHELL, signatures.ENVIRONMENT_SENT)


def scan_files(contents: Mapping[str, bytes]) -> Report:
    """See `hermes.skills.scanner.scan_files`."""
    scan = _Scan()
    for count, name in enumerate(sorted(contents, key=_importance)):
        shown = name.encode("utf-8", "backslashreplace").decode()
        if count >= MOST_FILES:
            scan.found.append(_whole(TOO_MANY, shown))
            break
        scan.file(name, shown, contents[name])
    scan.found.sort(key=lambda f: (-SEVERITIES.index(f.severity), f.file, f.line, f.rule))
    findings = tuple(scan.found[:MOST_FINDINGS])
    return Report(findings, verdict_of(findings))


class _Scan:
    """One skill, and how much of it may still be read."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self._bytes, self._pieces, self._programs = MOST, MOST_PIECES, MOST_PROGRAMS
        self._redactor = Redactor()

    def file(self, name: str, shown: str, data: bytes) -> None:
        self.found += [_whole(rule, shown) for rule in about_name(name)]
        unreadable = about_bytes(name, data)
        if unreadable is not None:
            self.found.append(_whole(unreadable, shown))
        if is_binary(data) or unreadable is not None:
            return
        is_data = name.lower().endswith(_DATA)
        if self._bytes <= 0 or self._pieces <= 0:
            self.found.append(_whole(MUCH_DATA if is_data else TOO_MUCH, shown))
            return
        if len(data) > LONGEST:
            self.found.append(_whole(MUCH_DATA if is_data else TOO_LONG, shown))
            data = data[: LONGEST // 2] + b"\n" + data[-LONGEST // 2 :]
        self._bytes -= len(data) * _WEIGHTS.get(PurePosixPath(name).suffix.lower(), 1)
        text = text_of(data)
        parts = list(islice(pieces_pieces(name, text), self._pieces))
        self._pieces -= len(parts)
        self._programs -= sum(map(_programs, parts))
        if self._pieces <= 0 or self._programs <= 0:
            self.found.append(_whole(TOO_LONG, shown))
            parts = [_shortened(part) if part.kind == "shell" else part for part in parts]
        self.found += _findings(name, shown, text, parts, self._redactor)


def _shortened(part: Piece) -> Piece:
    return msgspec.structs.replace(part, text=part.text[:SHORT])


def _programs(part: Piece) -> int:
    return len(re.findall(r"[|;&\n]+", part.text)) + 1 if part.kind == "shell" else 0


def _importance(name: str) -> tuple[int, str]:
    """SKILL.md, other instructions, scripts, data."""
    lowered = name.lower()
    if lowered == "skill.md":
        return 0, name
    if lowered.endswith(_DATA):
        return 3, name
    return (1 if is_prose(name) else 2), name


def _whole(rule: Rule, name: str) -> Finding:
    return Finding(rule.id, rule.category, rule.severity, name, 0, "", rule.why)


def _findings(
    name: str, shown: str, text: str, parts: list[Piece], redactor: Redactor
) -> Iterator[Finding]:
    lines = text.split("\n")
    counts: dict[tuple[str, str], int] = {}
    for rule, line in dict.fromkeys(_hits(name, text, parts)):
        kind = (rule.id, rule.severity)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= PER_RULE:
            said = lines[min(line, len(lines) - 1)]
            yield Finding(
                rule.id,
                rule.category,
                rule.severity,
                shown,
                line + 1,
                _shown(said, redactor),
                rule.why,
            )


def _shown(line: str, redactor: Redactor) -> str:
    plain = _UNSEEN.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", line.strip()[: 8 * SHOWN])
    redacted = redactor.redact(plain)
    return redacted if len(redacted) <= SHOWN else redacted[: SHOWN - 1] + "…"


def _hits(name: str, text: str, parts: list[Piece]) -> Iterator[Hit]:
    excused = {
        number
        for part in parts
        if part.warned
        for number in range(part.line, part.line + part.text.count("\n") + 1)
    }
    found = explain(text)
    yield from hidden(text, code=not is_prose(name))
    yield from stray(found)
    yield from secrets(text)
    yield from links(text)
    for hit in injections(text, found):
        yield Hit(softened(hit.rule, "low"), hit.line) if hit.line in excused else hit
    yield from _packages(name, text)
    for part in parts:
        for hit in _of_piece(part):
            rule = softened(hit.rule, "low") if part.warned else hit.rule
            yield Hit(rule, part.line + hit.line)


def _packages(name: str, text: str) -> Iterator[Hit]:
    for number, package, registry in signatures.listed(text, name):
        if signatures.is_typosquat(package, registry):
            yield Hit(TYPOSQUAT, number)
    if not name.lower().endswith("package.json"):
        return
    for line in signatures.from_addresses(text):
        yield Hit(PACKAGE, line)
    for line, command in pieces.runs_at_install(text):
        if dangers(command):
            yield Hit(AT_INSTALL, line)
        elif re.search(r"https?://|\b(?:node|python3?) -[ec]\b|\bbase64\b", command):
            yield Hit(INSTALL_CODE, line)


def _of_piece(part: Piece) -> Iterator[Hit]:
    match part.kind:
        case "prose":
            yield from prose(part.text)
            yield from declared(part.text)
        case "shell" if part.mentioned:
            hits = (*shell(part.text), *_inline(part.text))
            yield from (hit for hit in hits if at_least(hit, "high"))
        case "shell":
            yield from shell(part.text)
            yield from signatures.alone(part.text)
            yield from _inline(part.text)
            yield from _code(part.text)
        case "python":
            yield from _python(part)
            yield from startup_hits(part.text, dangers)
            yield from _encoded(part.text)
        case "code":
            yield from startup_hits(part.text, dangers)
            yield from _in_any_language(part.text)
            yield from _joined(part.text)
            yield from _encoded(part.text)
        case "data":
            yield from startup_hits(part.text, dangers)
            yield from signatures.alone(part.text)
            yield from _encoded(part.text)


def _python(part: Piece) -> Iterator[Hit]:
    hits = python(part.text if part.script else textwrap.dedent(part.text))
    if hits is None:
        yield from _in_any_language(part.text)
        if part.script:
            yield Hit(NO_PYTHON)
    yield from hits or ()


def _inline(text: str) -> Iterator[Hit]:
    for line, command in islice(pieces.by_database(text), MOST_INLINE):
        for hit in shell(command, depth=1):
            yield Hit(hit.rule, line)
    for line, code in islice(pieces.inline_python(text), MOST_INLINE):
        for hit in python(code) or ():
            yield Hit(hit.rule, line + hit.line)


def _code(text: str) -> Iterator[Hit]:
    yield from _encoded(text)
    yield from (hit for hit in signatures.together(text) if hit.rule in _ALSO_IN_SHELL)


def _started(text: str) -> Iterator[Hit]:
    for line, command in islice(signatures.started(text), MOST_INLINE):
        for hit in shell(command, depth=1):
            yield Hit(hit.rule, line)


def _encoded(text: str) -> Iterator[Hit]:
    for line, plain in scan_text.decoded(text):
        if plain == scan_text.PROGRAM:
            yield Hit(HIDDEN_PROGRAM, line)
        elif _is_attack(plain):
            yield Hit(HIDDEN_COMMAND, line)


def _joined(text: str) -> Iterator[Hit]:
    """What shows only when split strings are put together."""
    whole = scan_text.joined(text)
    if whole:
        before = {hit.rule for hit in _in_any_language(text)}
        for hit in _in_any_language(whole):
            if hit.rule not in before and at_least(hit, "high"):
                yield Hit(HIDDEN_COMMAND, 0)


def _in_any_language(text: str) -> Iterator[Hit]:
    yield from signatures.alone(text)
    yield from signatures.together(text)
    yield from _started(text)


def _is_attack(plain: str) -> bool:
    hits = [*dangers(plain), *_in_any_language(plain), *injections(plain, explain(plain))]
    return any(at_least(hit, "high") for hit in (*hits, *(python(plain) or ())))

"""Scan a skill: split every file into pieces, judge each piece, collect the findings."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

import msgspec

from hermes.security import Redactor
from hermes.security.injection import explain
from hermes.skills.scanner import pieces, signatures
from hermes.skills.scanner import text as scan_text
from hermes.skills.scanner.pieces import ScanPiece, is_prose, split_file
from hermes.skills.scanner.python import analyze_python
from hermes.skills.scanner.report import SEVERITIES, ScanFinding, ScanReport, verdict_of
from hermes.skills.scanner.rules import RULES, RuleHit, ScanRule, cap_severity, is_at_least
from hermes.skills.scanner.shell import analyze_shell, dangerous_hits
from hermes.skills.scanner.signatures import startup_hits
from hermes.skills.scanner.text import (
    credential_file_hits,
    hidden_character_hits,
    injection_hits,
    link_hits,
    prose_hits,
    secret_hits,
    stray_character_hits,
)

# Checks of the name and the first bytes of a file


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
"""Archives by format, documents by use."""
_HARMLESS: Final = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-", b"\0\0\1\0", b"OTTO", b"wOFF", b"wOF2",
    b"\0\1\0\0", b"true", b"ttcf", b"ID3", b"OggS", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"BM",
    b"SQLite format 3\0", b"II*\0", b"MM\0*", b"\x1aE\xdf\xa3", b"8BPS", b"PAR1",
)  # fmt: skip
"""Images, fonts, sound, video and tables: nothing in them is executed."""
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".bmp")
_COMPILED_PYTHON = re.compile(rb"..\r\n[\0-\x03]\0\0\0", re.DOTALL)
_SAMPLE_BYTES: Final = 8_192


def check_name(name: str) -> Iterator[ScanRule]:
    plain = name.replace("\\", "/")
    parts = plain.split("/")
    if not name or ".." in parts or plain.startswith(("/", "~")) or re.match(r"[A-Za-z]:", plain):
        yield RULES["name_leaves_folder"]
    if _ODD.search(name):
        yield RULES["odd_name"]


def check_bytes(name: str, data: bytes) -> ScanRule | None:
    """Return the rule for a file that cannot be scanned; None for text and harmless data."""
    lowered = name.lower()
    if lowered.endswith(_PICTURES) and data.startswith((b"#!", b"<?php", b"import ", b"\x7fELF")):
        return RULES["disguised"]
    if data.startswith(_PROGRAMS) and not _is_text(data):
        return RULES["program"]
    if lowered.endswith((".pyc", ".pyo")) or _COMPILED_PYTHON.match(data):
        return RULES["compiled_python"]
    if data.startswith(_ARCHIVES) or data[257:262] == b"ustar":
        return None if lowered.endswith(_DOCUMENTS) else RULES["archive"]
    if is_binary(data) and not data.startswith(_HARMLESS) and data[4:8] != b"ftyp":
        return RULES["unknown_data"]
    return None


def is_binary(data: bytes) -> bool:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16 is text
        return False
    return b"\0" in data[:_SAMPLE_BYTES] or (data.startswith(_HARMLESS) and not _is_text(data))


def _is_text(data: bytes) -> bool:
    """Whether the start is UTF-8 text; some magic numbers such as `BM` also start words."""
    start = data[:_SAMPLE_BYTES]
    return b"\0" not in start and len(start.decode("utf-8", "ignore").encode()) >= len(start) - 3


def decode_text(data: bytes) -> str:
    """Decode any bytes; undecodable ones become replacement characters."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


MAX_FILE_BYTES: Final = 384 * 1024
"""Bytes of one file that are read; of a longer file, its start and end."""
MAX_SKILL_BYTES: Final = 2 * 1024 * 1024
"""Weighted bytes of a skill that are read, the most important files first; see `_WEIGHTS`."""
_WEIGHTS: Final = {".md": 3, ".py": 4, ".sh": 6, ".txt": 3, "": 6}
"""Scanning instructions and scripts takes longer than scanning data."""
MAX_PIECES: Final = 3_000  #: Blocks and commands of a skill that are judged.
MAX_PROGRAMS: Final = 10_000
"""Approximate number of programs that the scripts of a skill start. Beyond it, only the first
`SHORT_SCRIPT_CHARS` of each script are read."""
SHORT_SCRIPT_CHARS: Final = 4_000
MAX_INLINE: Final = 300  #: Commands started by code, and code run by commands, in one piece.
MAX_FILES: Final = 1_000
MAX_FINDINGS: Final = 200
MAX_PER_RULE: Final = 5  #: Findings of one rule in one file.
MAX_LINE_CHARS: Final = 120
_DATA: Final = (
    ".json", ".csv", ".tsv", ".xml", ".svg", ".geojson", ".jsonl", ".ndjson", ".lock", ".log",
    ".ipynb",
)  # fmt: skip
_UNPRINTABLE = re.compile(
    "[^\x20-\x7e\xa1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff\uf900-\ufaff\U0001f000-\U0001faff]"
)


_ALSO_IN_SHELL: Final = (RULES["socket_shell"], RULES["environment_sent"])


def scan_files(contents: Mapping[str, bytes]) -> ScanReport:
    """See `hermes.skills.scanner.scan_files`."""
    scan = _Scan()
    for count, name in enumerate(sorted(contents, key=_importance)):
        shown = name.encode("utf-8", "backslashreplace").decode()
        if count >= MAX_FILES:
            scan.found.append(_file_finding(RULES["too_many"], shown))
            break
        scan.file(name, shown, contents[name])
    scan.found.sort(key=lambda f: (-SEVERITIES.index(f.severity), f.file, f.line, f.rule))
    findings = tuple(scan.found[:MAX_FINDINGS])
    return ScanReport(findings, verdict_of(findings))


class _Scan:
    """The scan of one skill, with its remaining budgets."""

    def __init__(self) -> None:
        self.found: list[ScanFinding] = []
        self._bytes, self._pieces, self._programs = MAX_SKILL_BYTES, MAX_PIECES, MAX_PROGRAMS
        self._redactor = Redactor()

    def file(self, name: str, shown: str, data: bytes) -> None:
        self.found += [_file_finding(rule, shown) for rule in check_name(name)]
        unreadable = check_bytes(name, data)
        if unreadable is not None:
            self.found.append(_file_finding(unreadable, shown))
        if is_binary(data) or unreadable is not None:
            return
        is_data = name.lower().endswith(_DATA)
        if self._bytes <= 0 or self._pieces <= 0:
            self.found.append(_file_finding(RULES["much_data" if is_data else "too_much"], shown))
            return
        if len(data) > MAX_FILE_BYTES:
            self.found.append(_file_finding(RULES["much_data" if is_data else "too_long"], shown))
            data = data[: MAX_FILE_BYTES // 2] + b"\n" + data[-MAX_FILE_BYTES // 2 :]
        self._bytes -= len(data) * _WEIGHTS.get(PurePosixPath(name).suffix.lower(), 1)
        text = decode_text(data)
        parts = list(islice(split_file(name, text), self._pieces))
        self._pieces -= len(parts)
        scripts = [part.text for part in parts if part.kind == "shell"]
        self._programs -= sum(len(re.findall(r"[|;&\n]+", text)) + 1 for text in scripts)
        if self._pieces <= 0 or self._programs <= 0:
            self.found.append(_file_finding(RULES["too_long"], shown))
            parts = [
                msgspec.structs.replace(part, text=part.text[:SHORT_SCRIPT_CHARS])
                if part.kind == "shell"
                else part
                for part in parts
            ]
        self.found += _file_findings(name, shown, text, parts, self._redactor)


def _importance(name: str) -> tuple[int, str]:
    """Sort key: SKILL.md, other instructions, scripts, data."""
    lowered = name.lower()
    if lowered == "skill.md":
        return 0, name
    if lowered.endswith(_DATA):
        return 3, name
    return (1 if is_prose(name) else 2), name


def _file_finding(rule: ScanRule, name: str) -> ScanFinding:
    return ScanFinding(rule.id, rule.category, rule.severity, name, 0, "", rule.why)


def _file_findings(
    name: str, shown: str, text: str, parts: list[ScanPiece], redactor: Redactor
) -> Iterator[ScanFinding]:
    lines = text.split("\n")
    counts: dict[tuple[str, str], int] = {}
    for rule, line in dict.fromkeys(_file_hits(name, text, parts)):
        kind = (rule.id, rule.severity)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= MAX_PER_RULE:
            excerpt = _display_line(lines[min(line, len(lines) - 1)], redactor)
            yield ScanFinding(
                rule.id, rule.category, rule.severity, shown, line + 1, excerpt, rule.why
            )


def _display_line(line: str, redactor: Redactor) -> str:
    plain = _UNPRINTABLE.sub(
        lambda match: f"\\u{{{ord(match[0]):x}}}", line.strip()[: 8 * MAX_LINE_CHARS]
    )
    redacted = redactor.redact(plain)
    return redacted if len(redacted) <= MAX_LINE_CHARS else redacted[: MAX_LINE_CHARS - 1] + "…"


def _file_hits(name: str, text: str, parts: list[ScanPiece]) -> Iterator[RuleHit]:
    excused = {
        number
        for part in parts
        if part.warned
        for number in range(part.line, part.line + part.text.count("\n") + 1)
    }
    found = explain(text)
    yield from hidden_character_hits(text, code=not is_prose(name))
    yield from stray_character_hits(found)
    yield from secret_hits(text)
    yield from link_hits(text)
    for hit in injection_hits(text, found):
        yield RuleHit(cap_severity(hit.rule, "low"), hit.line) if hit.line in excused else hit
    yield from _package_hits(name, text)
    for part in parts:
        for hit in _piece_hits(part):
            rule = cap_severity(hit.rule, "low") if part.warned else hit.rule
            yield RuleHit(rule, part.line + hit.line)


def _package_hits(name: str, text: str) -> Iterator[RuleHit]:
    for number, package, registry in signatures.listed_packages(text, name):
        if signatures.is_typosquat(package, registry):
            yield RuleHit(RULES["typosquat"], number)
    if not name.lower().endswith("package.json"):
        return
    for line in signatures.packages_from_urls(text):
        yield RuleHit(RULES["package"], line)
    for line, command in pieces.install_scripts(text):
        if dangerous_hits(command):
            yield RuleHit(RULES["install_script"], line)
        elif re.search(r"https?://|\b(?:node|python3?) -[ec]\b|\bbase64\b", command):
            yield RuleHit(RULES["install_code"], line)


def _piece_hits(part: ScanPiece) -> Iterator[RuleHit]:
    match part.kind:
        case "prose":
            yield from prose_hits(part.text)
            yield from credential_file_hits(part.text)
        case "shell" if part.mentioned:
            hits = (*analyze_shell(part.text), *_inline_hits(part.text))
            yield from (hit for hit in hits if is_at_least(hit, "high"))
        case "shell":
            yield from analyze_shell(part.text)
            yield from signatures.single_signatures(part.text)
            yield from _inline_hits(part.text)
            yield from _encoded_hits(part.text)
            combined = signatures.combined_signatures(part.text)
            yield from (hit for hit in combined if hit.rule in _ALSO_IN_SHELL)
        case "python":
            yield from _python_hits(part)
            yield from startup_hits(part.text, dangerous_hits)
            yield from _encoded_hits(part.text)
        case "code":
            yield from startup_hits(part.text, dangerous_hits)
            yield from _signature_hits(part.text)
            yield from _joined_string_hits(part.text)
            yield from _encoded_hits(part.text)
        case "data":
            yield from startup_hits(part.text, dangerous_hits)
            yield from signatures.single_signatures(part.text)
            yield from _encoded_hits(part.text)


def _python_hits(part: ScanPiece) -> Iterator[RuleHit]:
    hits = analyze_python(part.text if part.script else textwrap.dedent(part.text))
    if hits is None:
        yield from _signature_hits(part.text)
        if part.script:
            yield RuleHit(RULES["no_python"])
    yield from hits or ()


def _inline_hits(text: str) -> Iterator[RuleHit]:
    for line, command in islice(pieces.database_commands(text), MAX_INLINE):
        for hit in analyze_shell(command, depth=1):
            yield RuleHit(hit.rule, line)
    for line, code in islice(pieces.inline_python(text), MAX_INLINE):
        for hit in analyze_python(code) or ():
            yield RuleHit(hit.rule, line + hit.line)


def _encoded_hits(text: str) -> Iterator[RuleHit]:
    for line, plain in scan_text.decode_texts(text):
        if plain == scan_text.PROGRAM:
            yield RuleHit(RULES["encoded_program"], line)
        elif _is_attack(plain):
            yield RuleHit(RULES["encoded_attack"], line)


def _joined_string_hits(text: str) -> Iterator[RuleHit]:
    """Find what only shows after split strings are joined."""
    whole = scan_text.join_strings(text)
    if whole:
        before = {hit.rule for hit in _signature_hits(text)}
        for hit in _signature_hits(whole):
            if hit.rule not in before and is_at_least(hit, "high"):
                yield RuleHit(RULES["encoded_attack"], 0)


def _signature_hits(text: str) -> Iterator[RuleHit]:
    yield from signatures.single_signatures(text)
    yield from signatures.combined_signatures(text)
    for line, command in islice(signatures.started_commands(text), MAX_INLINE):
        for hit in analyze_shell(command, depth=1):
            yield RuleHit(hit.rule, line)


def _is_attack(plain: str) -> bool:
    hits = [*dangerous_hits(plain), *_signature_hits(plain), *injection_hits(plain, explain(plain))]
    return any(is_at_least(hit, "high") for hit in (*hits, *(analyze_python(plain) or ())))

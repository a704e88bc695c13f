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
from hermes.skills.scanner import encoded, files, packages, recipes, signatures
from hermes.skills.scanner.hidden import hidden, stray
from hermes.skills.scanner.links import declared, links
from hermes.skills.scanner.pieces import Piece, is_prose, pieces
from hermes.skills.scanner.prose import injections, prose
from hermes.skills.scanner.python import python
from hermes.skills.scanner.report import SEVERITIES, Category, Finding, Report, verdict_of
from hermes.skills.scanner.rule import Hit, Rule, at_least, softened
from hermes.skills.scanner.secrets import secrets
from hermes.skills.scanner.shell import dangers, shell
from hermes.skills.scanner.shell_rules import INSTALL_CODE, PACKAGE, TYPOSQUAT
from hermes.skills.scanner.startup import startup_hits

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
        self.found += [_whole(rule, shown) for rule in files.about_name(name)]
        unreadable = files.about_bytes(name, data)
        if unreadable is not None:
            self.found.append(_whole(unreadable, shown))
        if files.is_binary(data) or unreadable is not None:
            return
        is_data = name.lower().endswith(_DATA)
        if self._bytes <= 0 or self._pieces <= 0:
            self.found.append(_whole(MUCH_DATA if is_data else TOO_MUCH, shown))
            return
        if len(data) > LONGEST:
            self.found.append(_whole(MUCH_DATA if is_data else TOO_LONG, shown))
            data = data[: LONGEST // 2] + b"\n" + data[-LONGEST // 2 :]
        self._bytes -= len(data) * _WEIGHTS.get(PurePosixPath(name).suffix.lower(), 1)
        text = files.text_of(data)
        parts = list(islice(pieces(name, text), self._pieces))
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
    for number, package, registry in packages.listed(text, name):
        if packages.is_typosquat(package, registry):
            yield Hit(TYPOSQUAT, number)
    if not name.lower().endswith("package.json"):
        return
    for line in packages.from_addresses(text):
        yield Hit(PACKAGE, line)
    for line, command in recipes.runs_at_install(text):
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
    for line, command in islice(recipes.by_database(text), MOST_INLINE):
        for hit in shell(command, depth=1):
            yield Hit(hit.rule, line)
    for line, code in islice(recipes.inline_python(text), MOST_INLINE):
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
    for line, plain in encoded.decoded(text):
        if plain == encoded.PROGRAM:
            yield Hit(HIDDEN_PROGRAM, line)
        elif _is_attack(plain):
            yield Hit(HIDDEN_COMMAND, line)


def _joined(text: str) -> Iterator[Hit]:
    """What shows only when split strings are put together."""
    whole = encoded.joined(text)
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

"""Check the folder of a skill before it is used or published.

  check_skill.py ~/.hermes/skills/productivity/my-skill
  check_skill.py skills/ --all

Reads the head of SKILL.md, its length and sections, files that are named and missing or there and
not named, the syntax of Python and shell in blocks and scripts, and text that belongs to one
machine or looks like a key. Exit code: 0 nothing found, 1 findings, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HEAD = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
FIELD = re.compile(r"(?m)^([A-Za-z_-]+):[ \t]*(.*)$")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
BLOCK = re.compile(r"(?ms)^(?P<mark>`{3,}|~{3,})(?P<kind>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=mark) *$")
NAMED = re.compile(r"\$\{HERMES_SKILL_DIR\}/([\w./-]*\w)|\]\(([^)#:\s]+)\)")
FOLDERS = ("scripts", "references", "templates", "assets")
USUAL = ("When to Use", "Procedure", "Pitfalls", "Verification")
MACHINE = re.compile(r"(?<![\w.~*-])/(?:home|Users)/(?!(?:alice|bob|user|me|you)\b)\w+")
KEY = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|ghp_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|xox[bp]-[\w-]{20,})"
)
MOST_NAME, MOST_DESCRIPTION, MOST_LINES, BEST_DESCRIPTION = 64, 1024, 500, 90


def head_of(text: str) -> tuple[dict[str, str], str] | None:
    found = HEAD.match(text)
    if not found:
        return None
    fields = {key: value.strip().strip("\"'") for key, value in FIELD.findall(found[1])}
    return fields, found[2]


def head_findings(folder: Path, fields: dict[str, str]) -> Iterator[str]:
    name, description = fields.get("name", ""), fields.get("description", "")
    if not NAME.fullmatch(name) or len(name) > MOST_NAME:
        yield f"name {name!r}: small letters, digits and single hyphens, at most {MOST_NAME}"
    elif name != folder.name:
        yield f"name {name!r} is not that of the folder, {folder.name!r}"
    if not description:
        yield "description is missing: the model chooses by it"
    elif len(description) > MOST_DESCRIPTION:
        yield f"description has {len(description)} characters, {MOST_DESCRIPTION} are allowed"
    elif len(description) > BEST_DESCRIPTION:
        yield f"description has {len(description)} characters: it stands in every prompt, aim at 60"
    if re.match(r"(?i)(this skill|a skill|helps|use this)", description):
        yield 'description: begin with what it does, not with "This skill"'


def body_findings(folder: Path, body: str) -> Iterator[str]:
    lines = body.count("\n")
    if lines > MOST_LINES:
        yield f"SKILL.md has {lines} lines: move details to references/, {MOST_LINES} at most"
    outside = BLOCK.sub("", body)
    missing = [each for each in USUAL if not re.search(rf"(?mi)^##+ {each}\b", outside)]
    if missing:
        yield f"no section {', '.join(missing)}"
    named = {first or second for first, second in NAMED.findall(body)}
    for name in sorted(named):
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            yield f"{name} leads out of the folder"
        elif not (folder / name).exists():
            yield f"{name} is named and not there"
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = file.relative_to(folder).as_posix()
        if place == "SKILL.md" or "__pycache__" in place or place.startswith("."):
            continue
        if not place.startswith(FOLDERS):
            yield f"{place}: put it into {', '.join(FOLDERS)}"
        if place not in body and file.name not in body:
            yield f"{place} is not mentioned in SKILL.md, so it will not be read"


def syntax(kind: str, text: str) -> str:
    """What is wrong with a piece of Python or shell, or nothing."""
    if kind in ("python", "py"):
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            return str(error)
    if kind in ("bash", "sh") and shutil.which("bash"):
        done = subprocess.run(
            ["bash", "-n"], input=text, capture_output=True, text=True, check=False
        )
        return done.stderr.strip().partition("\n")[0]
    return ""


def text_findings(place: str, text: str) -> Iterator[str]:
    for found in sorted(set(MACHINE.findall(text))):
        yield f"{place}: {found} exists on one machine only"
    for found in KEY.finditer(text):
        yield f"{place}: looks like a key: {found[0][:8]}…"
    if re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2064]", text):
        yield f"{place}: invisible characters"


def check(folder: Path) -> Iterator[str]:
    text = (folder / "SKILL.md").read_text("utf-8")
    parts = head_of(text)
    if parts is None:
        yield "SKILL.md does not begin with a head between two lines of ---"
        return
    yield from head_findings(folder, parts[0])
    yield from body_findings(folder, parts[1])
    for block in BLOCK.finditer(parts[1]):
        wrong = syntax(block["kind"], block["text"])
        if wrong:
            line = text.count("\n", 0, text.index(block[0])) + 2
            yield f"SKILL.md line {line}: {wrong}"
        elif not block["kind"]:
            yield "a code block names no language"
    yield from text_findings("SKILL.md", text)
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".md")):
        if file.name != "SKILL.md":
            content = file.read_text("utf-8")
            place = file.relative_to(folder).as_posix()
            wrong = syntax({".py": "python", ".sh": "bash"}.get(file.suffix, ""), content)
            if wrong:
                yield f"{place}: {wrong}"
            yield from text_findings(place, content)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds SKILL.md")
    parser.add_argument("--all", action="store_true", help="every skill below the folder")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    inside = sorted(file.parent for file in options.folder.rglob("SKILL.md"))
    folders = inside if options.all else [options.folder]
    if not folders or not all((folder / "SKILL.md").is_file() for folder in folders):
        print(f"error: there is no SKILL.md in {options.folder}", file=sys.stderr)
        return 2
    count = 0
    for folder in folders:
        try:
            found = list(check(folder.absolute()))
        except UnicodeError:
            found = ["a file is no UTF-8 text"]
        for finding in found:
            print(f"{folder.absolute().name}: {finding}")
        count += len(found)
    print(f"{len(folders)} skill(s), {count} finding(s)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())

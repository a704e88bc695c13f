"""Skills in words for a terminal. What strangers wrote never reaches it raw."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hermes.cli.context import Cli
from hermes.cli.render import one_line
from hermes.cli.style import Style
from hermes.skills.hub import InstallCandidate, SkillOffer, summarize_changes
from hermes.skills.scanner import ScanFinding
from hermes.util.plain import escaped_json, plain, plain_line
from hermes.util.text import human_size, many

WIDTH = 110
"""Columns where there is no terminal."""
NARROWEST = 40
FRAME = 4
"""Columns before a line that a conversation shows; see `cli.mirrored`."""
MOST_FINDINGS = 20
VERDICTS = {"safe": "nothing suspicious", "caution": "caution", "dangerous": "dangerous"}


def width(cli: Cli) -> int:
    """Columns of a line. What is not written to our own stdout is shown in a conversation."""
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return max(NARROWEST, columns if cli.stdout is sys.stdout else columns - FRAME)


def document(cli: Cli, value: Any) -> None:
    """`value` as JSON."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    cli.say(escaped_json(encoded))


def example(*lines: str) -> str:
    """The end of a help text."""
    return "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {x}" for x in lines)])


def say_offers(cli: Cli, offers: Sequence[SkillOffer]) -> None:
    for offer in offers:
        count = f"  ({many(offer.installs, 'install')})" if offer.installs else ""
        cli.say(f"{plain_line(offer.identifier)}{count}")
        text = plain_line(offer.description) or f"from {offer.source}"
        cli.say(f"    {one_line(text, width(cli) - 4)}")


def say_findings(cli: Cli, verdict: str, findings: Sequence[ScanFinding]) -> None:
    style = Style.of(cli.stdout)
    dress = {"dangerous": style.bad, "caution": style.warn}.get(verdict, style.plain)
    cli.say(f"scan:     {dress(VERDICTS.get(verdict, verdict))}")
    for one in findings[:MOST_FINDINGS]:
        place = f"{plain_line(one.file)}:{one.line}" if one.line else plain_line(one.file)
        cli.say(f"  {one.severity:<8} {place}  {plain_line(one.why)}")
        if one.text:
            cli.say(f"           {one_line(plain_line(one.text), width(cli) - 11)}")
    if len(findings) > MOST_FINDINGS:
        cli.say(f"  and {many(len(findings) - MOST_FINDINGS, 'more finding')}")


def say_candidate(cli: Cli, one: InstallCandidate) -> None:
    skill = one.skill
    version = f" {plain_line(skill.version)}" if skill.version else ""
    cli.say(f"{skill.name}{version}: {plain_line(skill.description)}")
    cli.say(f"from:     {plain_line(one.origin.address or one.identifier)}")
    by = [plain_line(fact) for fact in (skill.author, skill.license) if fact]
    cli.say(f"trust:    {one.trust}" + (f", {', '.join(by)}" if by else ""))
    size = human_size(sum(map(len, one.files.values())))
    cli.say(f"files:    {many(len(one.files), 'file')}, {size}")
    say_findings(cli, one.report.verdict, one.findings)
    for warning in skill.warnings:
        cli.say(f"note:     {plain_line(warning)}")


def say_difference(cli: Cli, one: InstallCandidate) -> None:
    cli.say(f"changes:  {summarize_changes(one.current, one.files)}")
    style = Style.of(cli.stdout)
    for line in one.difference.split("\n"):
        text = plain(line)
        dress = {"+": style.accent, "-": style.bad, "@": style.dim}.get(text[:1], style.plain)
        cli.say(dress(text))


def say_problems(cli: Cli, problems: Iterable[str]) -> None:
    for problem in problems:
        cli.note(f"warning: {plain_line(problem)}")

"""`hermes skills browse`, `search` and `inspect`: what can be had elsewhere."""

import argparse

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import add_source, with_hub
from hermes.cli.commands.skills.wording import (
    document,
    example,
    say_candidate,
    say_findings,
    say_offers,
    say_problems,
)
from hermes.cli.context import Cli
from hermes.skills import SKILL_FILE
from hermes.skills.hub import Hub, RefusedSkill, SearchResult
from hermes.util.plain import plain, plain_line
from hermes.util.text import human_size


def add_actions(actions: Actions) -> None:
    browse = actions.add(
        "browse",
        with_hub(_browse),
        "list the skills of a source",
        json=True,
        description="List the skills of a source; without --source, the official ones and those of"
        "\nyour taps.",
        epilog=example("hermes skills browse", "hermes skills browse --source github"),
    )
    search = actions.add(
        "search",
        with_hub(_search),
        "search for skills",
        json=True,
        description="Search the official skills, your taps, well-known repositories and skills.sh.",
        epilog=example(
            "hermes skills search pdf",
            "hermes skills search owner/repo pdf --source github",
            "hermes skills search https://example.com --source well-known",
        ),
    )
    search.add_argument("words", nargs="+", metavar="WORDS")
    inspect = actions.add(
        "inspect",
        with_hub(_inspect),
        "show a skill and what the scan says, without installing it",
        json=True,
        description="Show a skill that is not installed, or a refused one that is in quarantine.",
        epilog=example("hermes skills inspect anthropics/skills/skills/pdf --text"),
    )
    inspect.add_argument("identifier", metavar="IDENTIFIER")
    inspect.add_argument("--text", action="store_true", help=f"its {SKILL_FILE} too")
    for parser in (browse, search, inspect):
        add_source(parser, "where to look")


async def _browse(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    return _show(args, cli, await hub.browse(args.source))


async def _search(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    return _show(args, cli, await hub.search(" ".join(args.words), args.source))


def _show(args: argparse.Namespace, cli: Cli, found: SearchResult) -> int:
    if args.json:
        document(cli, found)
        return 0
    say_offers(cli, found.offers)
    if not found.offers:
        cli.say("nothing was found")
    say_problems(cli, found.problems)
    return 0


async def _inspect(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    held = hub.quarantine.find(args.identifier)
    if held is not None:
        return _show_held(args, cli, *held)
    one = await hub.prepare(args.identifier, args.source)
    hub.quarantine.discard(one.staged)
    decision = one.decision()
    if args.json:
        facts = {
            "name": one.name,
            "description": one.skill.description,
            "identifier": one.identifier,
            "source": one.source,
            "trust": one.trust,
            "origin": one.origin,
            "verdict": one.report.verdict,
            "allowed": decision.allowed,
            "findings": one.findings,
            "files": {name: len(data) for name, data in one.files.items()},
        }
        document(cli, facts)
        return 0
    say_candidate(cli, one)
    cli.say(f"install:  {'yes' if decision.allowed else 'no'}; {plain_line(decision.reason)}")
    _say_files(args, cli, one.files)
    return 0


def _show_held(
    args: argparse.Namespace, cli: Cli, held: RefusedSkill, files: dict[str, bytes]
) -> int:
    if args.json:
        document(cli, {**msgspec.to_builtins(held), "quarantined": True})
        return 0
    cli.say(f"{held.name} is in quarantine since {held.at}: {plain_line(held.reason)}")
    cli.say(f"from:     {plain_line(held.origin.address or held.identifier)}")
    say_findings(cli, held.verdict, held.findings)
    _say_files(args, cli, files)
    return 0


def _say_files(args: argparse.Namespace, cli: Cli, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        cli.say(f"  {human_size(len(data)):>9}  {plain_line(name)}")
    if args.text:
        cli.say("")
        cli.say(plain(files.get(SKILL_FILE, b"").decode("utf-8", "replace")))

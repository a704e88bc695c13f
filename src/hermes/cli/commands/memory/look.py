"""`hermes memory show`: what is remembered."""

import argparse
from typing import Any

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import provider_desk
from hermes.cli.commands.memory.notes import TARGETS, Shelf
from hermes.cli.context import Cli
from hermes.core.errors import HermesError, ToolError
from hermes.memory.provider import Dict

PROVIDER = "provider"
PLACES = (*TARGETS, PROVIDER)


class Item(msgspec.Struct, frozen=True):
    """One thing that is remembered."""

    place: str
    """A target of the notes, or `provider`."""
    owner: str
    text: str
    id: str = ""
    """Of the provider."""
    more: Dict = {}

    @property
    def heading(self) -> str:
        return f"{self.place} ({self.owner})"


def add_actions(actions: Actions) -> None:
    show = actions.add(
        "show", _show, "show what is remembered, or what holds some words", json=True
    )
    show.add_argument("query", nargs="*", metavar="QUERY", help="words to look for")
    add_place(show)
    show.add_argument("--limit", type=int, default=100, metavar="N", help="of the provider (100)")


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", choices=PLACES, default="", help="only there")
    parser.add_argument(
        "--user", default="", metavar="ID", help="whose facts of the provider (yours)"
    )


def items(cli: Cli, query: str, target: str, user: str, limit: int) -> list[Item]:
    """Notes that hold every word of the query, and what the provider finds for it. A provider that
    cannot be used is an error only when it was asked for."""
    words = query.casefold().split()
    found = [
        Item(notes.target, notes.owner, entry)
        for notes in (Shelf(cli).all(target) if target != PROVIDER else ())
        for entry in notes.file.read()
        if all(word in entry.casefold() for word in words)
    ]
    if target in ("", PROVIDER):
        try:
            found += _of_provider(cli, query, user, limit)
        except HermesError as error:
            if target:
                raise
            cli.note(f"note: {error}")
    return found


def _of_provider(cli: Cli, query: str, user: str, limit: int) -> list[Item]:
    with provider_desk(cli, user) as desk:
        if desk is None:
            return []
        owner = f"{desk.name}, of user {user}" if user else desk.name
        return [
            Item(PROVIDER, owner, entry.pop("text"), entry.pop("id"), entry)
            for entry in desk.entries(query, limit)
        ]


def _show(args: argparse.Namespace, cli: Cli) -> int:
    try:
        found = items(cli, " ".join(args.query), args.target, args.user, args.limit)
    except ToolError as error:  # a damaged file of notes
        raise type(error)(str(error), hint="`hermes memory` lists the files") from error
    if args.json:
        cli.json([_document(item) for item in found])
        return 0
    heading = ""
    for item in found:
        if item.heading != heading:
            cli.say(f"{'' if not heading else chr(10)}{item.heading}")
            heading = item.heading
        cli.say(_line(item))
    if not found:
        cli.say("nothing is remembered" + (" about that" if args.query else " yet"))
    return 0


def _document(item: Item) -> dict[str, Any]:
    named = {"target": item.place, "owner": item.owner, "text": item.text}
    return {**named, **({"id": item.id} if item.id else {}), **item.more}


def _line(item: Item) -> str:
    mark = f"[{item.id}] " if item.id else ""
    more = ", ".join(f"{key} {value}" for key, value in item.more.items())
    text = item.text.replace("\n", "\n    ")
    return f"  - {mark}{text}{f' ({more})' if more else ''}"

"""`hermes memory show`: what is remembered."""

import argparse
from typing import Any, NamedTuple

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import provider_desk
from hermes.cli.commands.memory.notes import PERSONAL, TARGETS, YOURS, Shelf
from hermes.cli.commands.sessions.arguments import positive
from hermes.cli.context import Cli
from hermes.core.errors import HermesError, ToolError
from hermes.memory import Dict
from hermes.util.plain import escaped_json, plain, plain_line

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
        return f"{self.place} ({plain_line(self.owner)})"

    @property
    def mark(self) -> str:
        """The id as it is shown, if there is one."""
        return f"[{plain_line(self.id)}] " if self.id else ""

    def may_be_of(self, user: str) -> bool:
        """Not another person's note."""
        return self.place not in PERSONAL or self.owner == (f"user {user}" if user else YOURS)


class Found(NamedTuple):
    items: list[Item]
    unread: list[str]
    """Why some of it could not be looked at."""


def add_actions(actions: Actions) -> None:
    show = actions.add(
        "show", _show, "show what is remembered, or what holds some words", json=True
    )
    show.add_argument("query", nargs="*", metavar="QUERY", help="words to look for")
    add_place(show, "whose facts of the provider (yours)")
    show.add_argument(
        "--limit", type=positive, default=100, metavar="N", help="of the provider (100)"
    )


def add_place(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument("--target", choices=PLACES, default="", help="only there")
    parser.add_argument("--user", default="", metavar="ID", help=whose)


def items(cli: Cli, query: str, target: str, user: str, limit: int) -> Found:
    """Notes that hold every word of the query, and what the provider finds for it. A provider that
    cannot be used is an error when only that was asked for."""
    words, found = query.casefold().split(), Found([], [])
    for notes in Shelf(cli).all(target) if target != PROVIDER else ():
        try:
            entries = notes.file.read()
        except ToolError as error:
            found.unread.append(str(error))
            continue
        found.items.extend(
            Item(notes.target, notes.owner, entry)
            for entry in entries
            if all(word in entry.casefold() for word in words)
        )
    if target in ("", PROVIDER):
        try:
            found.items.extend(_of_provider(cli, query, user, limit))
        except HermesError as error:
            if target:
                raise
            found.unread.append(str(error))
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
    found = items(cli, " ".join(args.query), args.target, args.user, args.limit)
    if args.json:
        document = msgspec.json.encode([_document(item) for item in found.items])
        cli.say(escaped_json(msgspec.json.format(document, indent=2).decode()))
    else:
        _say(found, cli, about=" about that" if args.query else " yet")
    for problem in found.unread:
        cli.note(f"note: {problem}")
    return 1 if found.unread else 0


def _say(found: Found, cli: Cli, about: str) -> None:
    heading = ""
    for item in found.items:
        if item.heading != heading:
            cli.say(f"{'' if not heading else chr(10)}{item.heading}")
            heading = item.heading
        cli.say(_line(item))
    if not found.items and not found.unread:
        cli.say(f"nothing is remembered{about}")


def _document(item: Item) -> dict[str, Any]:
    named = {"target": item.place, "owner": item.owner, "text": item.text}
    return {**named, **({"id": item.id} if item.id else {}), **item.more}


def _line(item: Item) -> str:
    more = plain_line(", ".join(f"{key} {value}" for key, value in item.more.items()))
    text = plain(item.text).replace("\n", "\n    ")
    return f"  - {item.mark}{text}{f' ({more})' if more else ''}"

"""`hermes memory edit` and `hermes memory forget`."""

import argparse
import contextlib

from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import Desk, provider_desk
from hermes.cli.commands.memory.editor import Draft
from hermes.cli.commands.memory.look import PLACES, PROVIDER, Found, Item, add_place, items
from hermes.cli.commands.memory.notes import Notes, Shelf
from hermes.cli.context import Cli
from hermes.config.home import tilde
from hermes.core.errors import ConfigError, HermesError, ToolError, UsageError
from hermes.memory import notes as entries
from hermes.security.injection import scan
from hermes.util.plain import plain_line
from hermes.util.text import many

GLANCE = 100
MOST_FOUND = 10_000


def add_actions(actions: Actions) -> None:
    edit = actions.add("edit", _edit, "open notes in your editor, and check them afterwards")
    edit.add_argument(
        "text", nargs="*", metavar="TEXT", help="of the provider: a part of the entry, or its id"
    )
    edit.add_argument("--target", choices=PLACES, default="memory", help="which notes (memory)")
    edit.add_argument("--of", default="", metavar="NAME", help="whose notes: a part of the name")
    edit.add_argument("--user", default="", metavar="ID", help="whose facts of the provider")
    forget = actions.add("forget", _forget, "delete one thing that is remembered, for good")
    forget.add_argument(
        "text", nargs="+", metavar="TEXT", help="a part that nothing else has, or the id of a fact"
    )
    add_place(forget, "whose notes and facts (yours)")
    forget.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _edit(args: argparse.Namespace, cli: Cli) -> int:
    if args.target == PROVIDER:
        return _edit_entry(args, cli)
    if args.text:
        raise UsageError("notes are edited as a whole", hint="leave TEXT out")
    notes = Shelf(cli).one(args.target, args.of)
    before = notes.file.read()
    draft = Draft(f"{entries.join_entries(before)}\n" if before else "", notes.place.file.name, cli)
    wanted = entries.split_entries(draft.edited())
    merged = False

    def put(now: tuple[str, ...]) -> tuple[str, ...]:
        nonlocal merged
        merged = now != before
        return _merged(before, now, wanted)

    try:
        after = notes.file.change(put)
    except ToolError as error:
        raise draft.refused(str(error)) from error
    draft.drop()
    if after == before:
        cli.say("nothing was changed")
        return 0
    cli.say(f"{tilde(notes.place.file)} has {many(len(after), 'note')}, {notes.fullness()}")
    if merged:
        cli.note("note: the agent changed the file meanwhile; its changes are kept too")
    _warn(notes, after, cli)
    return 0


def _merged(
    before: tuple[str, ...], now: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[str, ...]:
    """What the user wants, with what others did to the file in the meantime."""
    gone = set(before) - set(now)
    new = [entry for entry in now if entry not in before]
    return tuple(dict.fromkeys([*(entry for entry in wanted if entry not in gone), *new]))


def _warn(notes: Notes, after: tuple[str, ...], cli: Cli) -> None:
    over = len(entries.join_entries(after)) - notes.limit
    if over > 0:
        cli.note(f"warning: {over:,} characters over the limit; the prompt leaves them out")
    for entry in after:
        if findings := scan(entry):
            cli.note(
                f"warning: this reads like a prompt injection ({', '.join(findings)}) and is not"
                f" shown to the agent: {_glance(entry)}"
            )


def _edit_entry(args: argparse.Namespace, cli: Cli) -> int:
    wanted = " ".join(args.text)
    if not wanted:
        raise UsageError("which entry?", hint='hermes memory edit --target provider "some words"')
    with provider_desk(cli, args.user) as desk:
        if desk is None:
            raise UsageError("there is no memory provider", hint="hermes memory setup")
        item = _unique(_matching(cli, wanted, PROVIDER, args.user), wanted)[0]
        draft = Draft(f"{item.text}\n", "entry.txt", cli)
        text = draft.edited().strip()
        if not text:
            raise draft.refused("it is empty; `hermes memory forget` deletes an entry")
        _put(desk, item, text, draft)
    draft.drop()
    cli.say("nothing was changed" if text == item.text else f"changed: {_glance(text)}")
    return 0


def _put(desk: Desk, item: Item, text: str, draft: Draft) -> None:
    try:
        taken = text == item.text or desk.edit(item.id, text)
    except HermesError as error:
        raise draft.refused(str(error)) from error
    if not taken:
        raise draft.refused("the provider did not take it")


def _forget(args: argparse.Namespace, cli: Cli) -> int:
    wanted = " ".join(args.text)
    found = _unique(_matching(cli, wanted, args.target, args.user), wanted)
    cli.say(_glance(found[0].text))
    cli.say(f"  in {', '.join(item.heading for item in found)}")
    if not args.yes and cli.ask("forget this? [y/N] ").strip().lower() not in ("y", "yes"):
        cli.say("nothing was changed")
        return 1
    with contextlib.ExitStack() as stack:
        desk: Desk | None = None
        try:
            desk = stack.enter_context(provider_desk(cli, args.user))
        except ConfigError as error:  # notes can be deleted without it
            cli.note(f"note: {error}")
        # The provider's copy first: a deleted note takes its copy along.
        for item in sorted(found, key=lambda item: item.place != PROVIDER):
            _delete(cli, item, desk)
    cli.say("forgotten")
    return 0


def _delete(cli: Cli, item: Item, desk: Desk | None) -> None:
    if item.place == PROVIDER:
        if desk is None or not desk.forget(item.id):
            raise HermesError("the provider did not find it any more")
        return
    for notes in Shelf(cli).all(item.place):
        if notes.owner == item.owner:
            notes.notebook().remove(item.text)
            if desk is not None:
                desk.note_removed(item.place, item.text)


def _matching(cli: Cli, wanted: str, target: str, user: str) -> list[Item]:
    """What holds the text, of one person and of projects and chats. All that a provider lists is
    looked at, because it looks for words; what it does not list, it may find."""
    if not wanted.strip():
        raise UsageError("what should be looked for?", hint="give a part of the text, or an id")
    looked = items(cli, "", target, user, MOST_FOUND)
    for problem in looked.unread:
        cli.note(f"note: {problem}")
    return _holding(looked, wanted, user) or _holding(
        items(cli, wanted, target, user, MOST_FOUND), wanted, user
    )


def _holding(looked: Found, wanted: str, user: str) -> list[Item]:
    theirs = [item for item in looked.items if item.may_be_of(user)]
    exact = [item for item in theirs if wanted in (item.text, item.id)]
    return exact or [item for item in theirs if wanted.casefold() in item.text.casefold()]


def _unique(found: list[Item], wanted: str) -> list[Item]:
    """The matches, if they are one text: a note and the provider's copy of it, say."""
    texts = {item.text: item for item in found}
    if len(texts) == 1:
        return found
    if not texts:
        raise UsageError(f"nothing holds {wanted!r}", hint="`hermes memory show` lists everything")
    shown = "\n".join(f"  - {item.mark}{_glance(text)}" for text, item in [*texts.items()][:10])
    raise UsageError(
        f"{len(texts)} things hold {wanted!r}:\n{shown}",
        hint="give a longer part of the one you mean, or the id in [ ]",
    )


def _glance(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= GLANCE else f"{line[:GLANCE]}…"

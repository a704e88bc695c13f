"""`hermes sessions browse`: choose a conversation and go on with it."""

import argparse
import shutil
from importlib import import_module

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import looking
from hermes.cli.commands.sessions.arguments import example
from hermes.cli.commands.sessions.look import HIDDEN_SOURCES, one_line_of
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.core.ports import SessionInfo
from hermes.store.records import SearchRequest, SessionFilter
from hermes.store.session_store import SessionStore

PAGE = 10
QUESTION = "number to go on with, words to search for, Enter for more, q to leave: "


def add_actions(actions: Actions) -> None:
    parser = actions.add(
        "browse",
        _browse,
        "choose a session and go on with it",
        epilog=example("hermes sessions browse --source telegram"),
    )
    parser.add_argument("--source", default="", help="only those of cli, telegram, …")


def _browse(args: argparse.Namespace, cli: Cli) -> int:
    if not cli.interactive:
        raise UsageError(
            "browse asks, and this is not a terminal",
            hint="`hermes sessions list` and `hermes sessions search` print",
        )
    chosen: list[str] = []

    async def work(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
        chosen.extend(await _choose(cli, store, args.source))
        return 0

    args.json = False
    looking(work)(args, cli)
    if not chosen:
        return 0
    chat = import_module("hermes.cli.commands.chat")
    parser = argparse.ArgumentParser()
    chat.configure(parser)
    result: int = chat.run(parser.parse_args(["--resume", chosen[0]]), cli)
    return result


async def _choose(cli: Cli, store: SessionStore, source: str) -> list[str]:
    """The id of the session that was chosen, or none."""
    offset, words = 0, ""
    while True:
        page = await _page(store, source, words, offset)
        _show(cli, page, offset)
        answer = cli.ask(QUESTION).strip()
        if answer in ("q", "quit", "exit"):
            return []
        if not answer:
            offset = offset + PAGE if len(page) == PAGE else 0
        elif not answer.isdecimal():
            offset, words = 0, answer
        elif offset < int(answer) <= offset + len(page):
            return [page[int(answer) - offset - 1].id]
        else:
            cli.say(f"there is no {answer} on this page")


async def _page(
    store: SessionStore, source: str, words: str, offset: int
) -> tuple[SessionInfo, ...]:
    sources = (source,) if source else ()
    hidden = () if source else HIDDEN_SOURCES
    if not words:
        which = SessionFilter(sources, hidden, limit=PAGE, offset=offset)
        return await store.sessions(which)
    request = SearchRequest(words, sources, hidden, limit=PAGE * 10)
    ids = dict.fromkeys(hit.session_id for hit in await store.search(request))
    return tuple([await store.info(one) for one in list(ids)[offset : offset + PAGE]])


def _show(cli: Cli, page: tuple[SessionInfo, ...], offset: int) -> None:
    if not page:
        cli.say("nothing more")
    width = shutil.get_terminal_size().columns - 5
    for number, info in enumerate(page, start=offset + 1):
        cli.say(f"{number:>3}  {one_line_of(info, width)}")

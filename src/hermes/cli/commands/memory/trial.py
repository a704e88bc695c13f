"""`hermes memory test`: try the provider out, step by step."""

import argparse
import secrets
import time
from collections.abc import Callable
from typing import Any

from hermes.cli.actions import Actions
from hermes.cli.commands.memory.desk import SECONDS, guarded_provider
from hermes.cli.context import Cli
from hermes.core.errors import HermesError, UsageError
from hermes.memory.manager import IsolatedProvider
from hermes.memory.provider import Dicts, Inspectable

USER = "hermes-memory-test"
"""A user of its own: the trial never mixes with anybody's memory."""


def add_actions(actions: Actions) -> None:
    test = actions.add("test", _test, "try the provider out, step by step, with time limits")
    test.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="without it: the one in use"
    )


def _test(args: argparse.Namespace, cli: Cli) -> int:
    name = args.name or cli.load().settings.memory.provider
    if not name:
        raise UsageError("there is no memory provider", hint="hermes memory setup NAME")
    try:
        guarded = _step(cli, "load", lambda: guarded_provider(cli, name))
        _try(cli, guarded)
    except HermesError as error:
        if error.hint:
            cli.note(f"  {error.hint}")
        return 1
    cli.say(f"{name} works")
    return 0


def _try(cli: Cli, guarded: IsolatedProvider) -> None:
    def available() -> str:
        if not guarded.start("is_available"):
            raise HermesError("no", hint=f"hermes memory setup {guarded.name}")
        return ""

    word = f"test{secrets.token_hex(4)}"
    said = f"Remember that the test word of hermes memory is {word}."
    home = str(cli.home.root)
    _step(cli, "available", available)
    try:
        _step(
            cli,
            "initialise",
            lambda: guarded.start(
                "initialize", USER, hermes_home=home, platform="cli", user_id=USER, tell=cli.note
            ),
        )
        _step(cli, "tools", lambda: _tools(guarded))
        _step(cli, "save a turn", lambda: guarded.wait("sync_turn", SECONDS, said, "Noted."))
        _step(cli, "recall", lambda: _recall(guarded, word))
        _step(cli, "clean up", lambda: _clean(guarded, word))
    finally:
        guarded.shut_down()


def _step(cli: Cli, what: str, work: Callable[[], Any]) -> Any:
    begin = time.monotonic()
    try:
        result = work()
    except HermesError as error:
        cli.say(f"failed  {what:<12} {error}")
        raise
    spent = 1000 * (time.monotonic() - begin)
    note = f", {result}" if isinstance(result, str) and result else ""
    cli.say(f"ok      {what:<12} {spent:,.0f} ms{note}")
    return result


def _tools(guarded: IsolatedProvider) -> str:
    schemas: Dicts = guarded.wait("get_tool_schemas", SECONDS)
    return ", ".join(schema["name"] for schema in schemas) or "none"


def _recall(guarded: IsolatedProvider, word: str) -> str:
    text: str = guarded.wait("prefetch", SECONDS, "What is the test word of hermes memory?")
    if word in text:
        return "the word came back"
    return "the word did not come back at once; many services need a while"


def _clean(guarded: IsolatedProvider, word: str) -> str:
    """Delete what the trial left, where the provider lets us."""
    if not isinstance(guarded.provider, Inspectable):
        return f"left as it is, below the user {USER}"
    found: Dicts = guarded.wait("entries", SECONDS, word, 10)
    mine = [each["id"] for each in found if word in each["text"]]
    for entry_id in mine:
        guarded.wait("forget", SECONDS, entry_id)
    return "the word is deleted" if mine else "nothing to delete"

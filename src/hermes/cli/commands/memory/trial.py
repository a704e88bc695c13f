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
from hermes.memory import Dicts, Inspectable, IsolatedProvider

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
        isolated = _step(cli, "load", lambda: guarded_provider(cli, name))
        _try(cli, isolated)
    except HermesError as error:
        if error.hint:
            cli.note(f"  {error.hint}")
        return 1
    cli.say(f"{name} works")
    return 0


def _try(cli: Cli, isolated: IsolatedProvider) -> None:
    def available() -> str:
        if not isolated.call_at_start("is_available"):
            raise HermesError("no", hint=f"hermes memory setup {isolated.name}")
        return ""

    word = f"test{secrets.token_hex(4)}"
    said = f"Remember that the test word of hermes memory is {word}."
    home = str(cli.home.root)
    _step(cli, "available", available)
    try:
        _step(
            cli,
            "initialise",
            lambda: isolated.call_at_start(
                "initialize", USER, hermes_home=home, platform="cli", user_id=USER, tell=cli.note
            ),
        )
        _step(cli, "tools", lambda: _tools(isolated))
        _step(cli, "save a turn", lambda: isolated.call("sync_turn", SECONDS, said, "Noted."))
        _step(cli, "recall", lambda: _recall(isolated, word))
        _step(cli, "clean up", lambda: _clean(isolated, word))
    finally:
        isolated.shut_down()


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


def _tools(isolated: IsolatedProvider) -> str:
    schemas: Dicts = isolated.call("get_tool_schemas", SECONDS)
    return ", ".join(schema["name"] for schema in schemas) or "none"


def _recall(isolated: IsolatedProvider, word: str) -> str:
    text: str = isolated.call("prefetch", SECONDS, "What is the test word of hermes memory?")
    if word in text:
        return "the word came back"
    return "the word did not come back at once; many services need a while"


def _clean(isolated: IsolatedProvider, word: str) -> str:
    """Delete what the trial left, where the provider lets us."""
    if not isinstance(isolated.provider, Inspectable):
        return f"left as it is, below the user {USER}"
    found: Dicts = isolated.call("entries", SECONDS, word, 10)
    mine = [each["id"] for each in found if word in each["text"]]
    for entry_id in mine:
        isolated.call("forget", SECONDS, entry_id)
    return "the word is deleted" if mine else "nothing to delete"

"""Commands as data: dispatch, output and questions."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.cli.context import YES, Cli, Command, CommandEnded, OneOf, arg, flag, run_command
from hermes.cli.main import Parser
from hermes.config.home import Home
from hermes.core.errors import UsageError
from tests.unit.cli.terminal import Terminal

ROWS = [{"name": "a\x1b[31m", "size": 5}, {"name": "a long name", "size": 1200}]


def run(command: Command, *words: str, stream=io.StringIO, typed: str = "") -> tuple[int, str]:
    parser = Parser(prog="hermes demo")
    command.configure(parser)
    cli = Cli(Home(Path("/nowhere")), stream(typed), stream(), stream())
    return run_command(parser.parse_args(words), cli), cli.stdout.getvalue()


def test_actions_are_sync_or_async_and_none_is_exit_code_0() -> None:
    demo = Command("demo")

    @demo.action("one", "the first", arg("word"))
    def _one(args, cli) -> None:
        cli.say(args.word)

    @demo.action("two", "the second", aliases=("second",))
    async def _two(_args, _cli) -> int:
        return 3

    assert run(demo, "one", "hello") == (0, "hello\n")
    assert run(demo, "two") == run(demo, "second") == (3, "")
    assert "the first" in run(demo)[1]


def test_the_default_action_runs_with_the_defaults_of_its_arguments() -> None:
    demo = Command("demo", default="list")

    @demo.action("list", "all of them", arg("--limit", type=int, default=7), json=True)
    def _list(args, cli) -> None:
        cli.emit([args.limit], str(args.limit))

    assert run(demo) == (0, "7\n")
    assert run(demo, "list", "--json", "--limit", "2") == (0, "[\n  2\n]\n")


def test_needs_is_opened_for_the_action_and_closed_when_it_fails() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def needs(cli: Cli) -> AsyncIterator[str]:
        if cli.args.empty:
            raise CommandEnded
        seen.append("open")
        try:
            yield "the store"
        finally:
            seen.append("closed")

    demo = Command("demo", needs=needs)

    @demo.action("go", "with it", flag("--empty", help="without"))
    async def _go(_args, _cli, store: str) -> None:
        raise UsageError(store)

    with pytest.raises(UsageError, match="the store"):
        run(demo, "go")
    assert seen == ["open", "closed"]
    assert run(demo, "go", "--empty") == (0, "")


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ({"line": lambda row: row["name"][:1]}, "a\na\n"),
        ({"text": ["x", "y"]}, "x\ny\n"),
    ],
)
def test_emit_prints_lines(options, printed) -> None:
    def show(_args, cli) -> None:
        cli.emit(ROWS, **options)

    assert run(Command("demo", show, json=True)) == (0, printed)
    assert "\\u001b" in run(Command("demo", show, json=True), "--json")[1]


def test_emit_says_when_there_is_nothing() -> None:
    def show(_args, cli) -> None:
        cli.emit([], line=str, empty="none yet")

    assert run(Command("demo", show, json=True)) == (0, "none yet\n")
    assert run(Command("demo", show, json=True), "--json") == (0, "[]\n")


def test_confirm_asks_unless_yes_was_given() -> None:
    def ask(_args, cli) -> int:
        return 0 if cli.confirm("Really?") else 1

    demo = Command("demo", ask, "", YES)
    assert run(demo, "--yes") == (0, "")
    assert run(demo, stream=Terminal, typed="Yes\n") == (0, "Really? [y/N] ")
    assert run(demo, stream=Terminal, typed="\n")[0] == 1
    with pytest.raises(UsageError, match="needs --yes without a terminal"):
        run(demo)


def test_at_most_one_of_several_arguments_is_accepted() -> None:
    demo = Command("demo", None, "", OneOf(flag("--on", help="on"), flag("--off", help="off")))
    with pytest.raises(UsageError, match="not allowed with"):
        run(demo, "--on", "--off")

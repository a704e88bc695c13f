"""One question for one setting, and other commands run on the user's behalf."""

from typing import Any

import msgspec

from hermes.cli import registry
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.config import edit
from hermes.config.assignment import assign
from hermes.core.errors import HermesError, UsageError


class Choice(msgspec.Struct, frozen=True):
    value: str
    meaning: str


class Question(msgspec.Struct, frozen=True):
    key: str
    """The setting."""
    text: str
    choices: tuple[Choice, ...] = ()
    """Offered with numbers; empty when anything can be typed."""


def fresh(cli: Cli) -> Cli:
    """The same terminal and home, with settings read again."""
    return Cli(cli.home, cli.stdin, cli.stdout, cli.stderr)


def run_command(cli: Cli, name: str, *words: str) -> int:
    """`hermes NAME WORDS`, with all its own questions and messages."""
    command = registry.find(name)
    if command is None:
        raise UsageError(f"there is no command {name!r}")
    module = command.load()
    parser = Parser(prog=f"hermes {name}")
    module.configure(parser)
    return module.run(parser.parse_args(words), fresh(cli))


def put(cli: Cli, key: str, text: str) -> None:
    """Save a setting. Raises `HermesError` when the value does not fit."""
    change = assign(key, text)
    edit.set_value(cli.home, change.parts, change.value)


def ask_all(questions: tuple[Question, ...], cli: Cli) -> None:
    for question in questions:
        ask(question, cli)


def ask(question: Question, cli: Cli) -> str:
    """Ask until the answer fits; the value in force afterwards."""
    now = _shown(fresh(cli).load().value(question.key))
    for number, choice in enumerate(question.choices, start=1):
        mark = "*" if choice.value == now else " "
        cli.say(f" {mark}{number}  {choice.value or '(default)':<12} {choice.meaning}")
    while True:
        said = cli.ask(f"  {question.text} [{now or 'not set'}]: ").strip()
        if not said:
            return now
        if question.choices and said.isdigit() and 1 <= int(said) <= len(question.choices):
            said = question.choices[int(said) - 1].value
        try:
            put(cli, question.key, said)
        except HermesError as error:
            cli.say(f"  {error}")
        else:
            return said


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)

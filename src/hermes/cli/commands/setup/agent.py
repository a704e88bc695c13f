"""`hermes setup agent`: how the agent works."""

import argparse

from hermes.cli.commands.setup.asking import Choice, Question, ask_all, put
from hermes.cli.context import Cli

QUESTIONS = (
    Question(
        "approvals.mode",
        "before dangerous commands",
        (
            Choice("manual", "ask me"),
            Choice("smart", "a model judges the plain cases, I am asked about the others"),
            Choice("deny", "refuse them"),
            Choice("off", "never ask: only in a place where nothing can break"),
        ),
    ),
    Question(
        "agent.reasoning_effort",
        "how hard the model thinks: none, minimal, low, medium, high or xhigh",
    ),
    Question("agent.max_turns", "most model calls in one turn"),
    Question("budget.day_usd", "most a day may cost, in US dollars"),
    Question("timezone", "time zone, such as Europe/Berlin"),
)


def ask(cli: Cli) -> None:
    ask_all(QUESTIONS, cli)


def apply(args: argparse.Namespace, cli: Cli) -> bool:
    given = {"approvals.mode": args.approvals, "agent.max_turns": args.max_turns}
    said = {key: value for key, value in given.items() if value is not None}
    for key, value in said.items():
        put(cli, key, value)
        cli.say(f"{key}: {value}")
    return bool(said)

"""`hermes chat`: talk to the agent, or ask one thing."""

import argparse
import asyncio
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.cli.approver import TerminalApprover
from hermes.cli.context import Cli
from hermes.cli.extending import extended
from hermes.cli.progress import ProgressLine
from hermes.cli.render import AnswerOnly, JsonLines, Renderer, Terminal
from hermes.cli.style import Style
from hermes.cli.turns import one_turn
from hermes.config.loader import Loaded
from hermes.core.errors import UsageError

EPILOG = """\
examples:
  hermes chat                                    a conversation
  hermes chat -q "what is in this folder?"       one question
  git diff | hermes chat -q "review this: -"     `-` at the end stands for standard input
  hermes chat --continue -q "and the tests?"     go on where the last chat ended
  hermes chat -q "…" --json | jq .type           every event as a JSON line

exit codes: 0 answered, 1 failed, 2 wrong usage, 3 settings, 4 key missing or refused,
5 model endpoint, 6 session store, 7 embedded model, 8 a cap on money, 130 interrupted
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Talk to the agent. Without -q it is a conversation."
    parser.epilog = EPILOG
    add = parser.add_argument
    add("-q", "--query", metavar="TEXT", help="ask this, print the answer and end")
    add("-m", "--model", metavar="NAME", help="model to use")
    add("--provider", metavar="ID", help="provider to use (openrouter, openai, custom, local, …)")
    add("--base-url", metavar="URL", help="address of an OpenAI-compatible endpoint")
    add("-r", "--resume", metavar="ID", help="go on with this session (an id or a title)")
    add(
        "-c", "--continue", dest="go_on", nargs="?", const="", metavar="TITLE",
        help="go on with the latest session, or the latest of this title",
    )  # fmt: skip
    add(
        "-t", "--toolsets", metavar="NAMES", default="",
        help="toolsets or tools to use, with commas between; -NAME leaves one out",
    )  # fmt: skip
    add(
        "-s", "--skills", metavar="NAMES", action="append", default=[],
        help="skills to begin with, with commas between; may be repeated",
    )  # fmt: skip
    add("--max-turns", type=int, metavar="N", help="most model calls in one turn")
    add("--yolo", action="store_true", help="run dangerous commands without asking")
    add("--accept-hooks", action="store_true", help="run the hooks of the settings unasked")
    add(
        "--save-trajectories", action="store_true",
        help="write the conversation to a trajectory file in this folder after each turn",
    )  # fmt: skip
    add("--source", default="cli", metavar="NAME", help="label stored with a new session")
    add("-v", "--verbose", action="store_true", help="show the model's reasoning too")
    add("-Q", "--quiet", action="store_true", help="print the final answer only")
    add("--json", action="store_true", help="print every event as a JSON line")


def run(args: argparse.Namespace, cli: Cli, talk: Any = None) -> int:
    """`talk` leads the conversation, when it is another `HermesCLI` than ours."""
    query = _query(args, cli)
    loaded = cli.load(_overrides(args))
    for warning in loaded.warnings:
        cli.note(f"hermes: {warning}")
    return asyncio.run(_chat(loaded, args, cli, query, talk))


async def _chat(
    loaded: Loaded, args: argparse.Namespace, cli: Cli, query: str | None, talk: Any
) -> int:
    style = Style.of(cli.stdout)
    approver = TerminalApprover(cli.stdin, cli.stdout)
    renderer = _renderer(args, cli, style, approver)
    can_ask = cli.interactive and isinstance(renderer, Terminal)
    request = SessionRequest(
        resume=args.resume or args.go_on or "",
        latest=args.go_on is not None,
        source=args.source,
        working_folder=Path.cwd(),
        approver=approver if can_ask else None,
        clarifier=approver if can_ask else None,
        read_secret=approver.secret if can_ask else None,
        skills=words(args.skills),
        toolsets=words([args.toolsets]),
        goes_on=query is None,
    )
    extensions = extended(loaded, cli, ask=can_ask)
    progress = ProgressLine(cli.stderr)
    async with App(cli.home, loaded, progress, cli.note, extensions=extensions) as app:
        await extensions.settle()
        agent = await app.agent(request)
        if query is not None:
            return await one_turn(agent, await app.opened(agent, query), renderer)
        app.providers.learn_meanwhile()
        # A prompt costs imports that a single question does not need.
        talk = talk or import_module("hermes.cli.hermes_cli").HermesCLI()
        if caching := app.caching_line(agent):
            cli.say(style.dim(caching))
        code: int = await talk.talk(app, agent, renderer, cli)
        return code


def words(given: Iterable[str]) -> tuple[str, ...]:
    """Names with commas between, said in one go or in several."""
    return tuple(name.strip() for each in given for name in each.split(",") if name.strip())


def _renderer(
    args: argparse.Namespace, cli: Cli, style: Style, approver: TerminalApprover
) -> Renderer:
    if args.json:
        return JsonLines(cli.stdout)
    if args.quiet or not cli.stdout.isatty():
        return AnswerOnly(cli.stdout, cli.stderr)
    return Terminal(cli.stdout, style, reasoning=args.verbose, question_shown=approver.shown)


def _query(args: argparse.Namespace, cli: Cli) -> str | None:
    """What to ask; None for a conversation. A trailing `-` is replaced by standard input."""
    query: str | None = args.query
    if query is None:
        if cli.stdin.isatty():
            if args.json or not cli.stdout.isatty():
                raise UsageError("a conversation needs a terminal", hint='hermes chat -q "…"')
            return None
        query = "-"
    if query == "-" or query.endswith(" -"):
        query = query[:-1] + cli.stdin.read()
    if not query.strip():
        raise UsageError("the question is empty", hint='hermes chat -q "what is in this folder?"')
    return query


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Flags as settings; a flag that was not given says nothing."""
    if args.max_turns is not None and args.max_turns < 1:
        raise UsageError("--max-turns must be at least 1")
    given = {
        "model.default": args.model,
        "model.provider": args.provider or ("custom" if args.base_url else None),
        "model.base_url": args.base_url,
        "agent.max_turns": args.max_turns,
        "agent.save_trajectories": True if args.save_trajectories else None,
        "approvals.mode": "off" if args.yolo else None,
        "hooks_auto_accept": True if args.accept_hooks else None,
    }
    return {key: value for key, value in given.items() if value is not None}

"""One question, one answer: `hermes chat -q`."""

import argparse
from contextlib import redirect_stdout

from hermes.cli.approver import TerminalApprover
from hermes.cli.context import Cli
from hermes.cli.extending import asked_in_lines
from hermes.cli.progress import ProgressLine
from hermes.cli.render import AnswerOnly, JsonLines, Renderer, Terminal
from hermes.cli.starting import started, with_images
from hermes.cli.style import Style
from hermes.cli.turns import one_turn
from hermes.config.loader import Loaded
from hermes.tui.conversation import Referring


async def answer(loaded: Loaded, args: argparse.Namespace, cli: Cli, query: str) -> int:
    """The exit code."""
    approver = TerminalApprover(cli.stdin, cli.stdout)
    renderer = _renderer(args, cli, approver)
    there = cli.interactive and isinstance(renderer, Terminal)
    with redirect_stdout(cli.stderr):  # what plugins print is no part of the answer
        async with started(
            loaded,
            args,
            cli,
            asker=approver if there else None,
            progress=ProgressLine(cli.stderr),
            consent=asked_in_lines(cli) if there else None,
            goes_on=False,
        ) as (app, agent, folder):
            referring = Referring(app, lambda: agent, folder, cli.note)
            message = await referring(await app.opened(agent, query))
            return await one_turn(agent, with_images(message, args.image), renderer)


def _renderer(args: argparse.Namespace, cli: Cli, approver: TerminalApprover) -> Renderer:
    if args.json:
        return JsonLines(cli.stdout)
    if args.quiet or not cli.stdout.isatty():
        return AnswerOnly(cli.stdout, cli.stderr)
    style = Style.of(cli.stdout)
    return Terminal(cli.stdout, style, reasoning=args.verbose, question_shown=approver.shown)

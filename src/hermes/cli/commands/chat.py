"""`hermes chat`: talk to the agent, or ask one thing."""

import asyncio
import shlex
from argparse import SUPPRESS, Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, get_args

from hermes.cli.context import Cli, Command, arg, flag, repeated
from hermes.config.environment import term_is_dumb
from hermes.config.loader import Loaded
from hermes.config.settings import PermissionMode
from hermes.core.errors import UsageError


def run(args: Namespace, cli: Cli, talk: Any = None) -> int:
    """Run the command. `talk` is the caller's `HermesCLI` subclass, if there is one."""
    query = _query(args, cli)
    loaded = cli.load(_overrides(args), user_config=not args.ignore_user_config)
    for warning in loaded.warnings:
        cli.note(f"hermes: {warning}")
    if query is not None:
        return asyncio.run(_answer(loaded, args, cli, query))
    from hermes.compat.cli import HermesCLI  # the terminal UI, which one question does not need

    leader: HermesCLI = talk or HermesCLI()
    plainly = args.plain or loaded.settings.display.plain or term_is_dumb()
    code = asyncio.run(leader.talk(loaded, args, cli, plainly=plainly and not args.tui))
    from hermes.app import QUICK_BACKUP_BYTES, back_up_when_due  # after the prompt

    back_up_when_due(cli.home, loaded.settings, max_bytes=QUICK_BACKUP_BYTES)
    return code


async def _answer(loaded: Loaded, args: Namespace, cli: Cli, query: str) -> int:
    """Run the turn of `hermes chat -q`; return the exit code."""
    # A conversation shows its prompt before it loads the agent, so these are not at the top.
    from hermes.cli.context import ProgressLine
    from hermes.cli.extensions import ask_hook_approval
    from hermes.cli.session import open_session, run_turn, with_images
    from hermes.cli.terminal import TerminalApprover, TerminalRenderer, renderer_for

    approver = TerminalApprover(cli.stdin, cli.stdout)
    renderer = renderer_for(args, cli, approver)
    interactive = cli.interactive and isinstance(renderer, TerminalRenderer)
    with redirect_stdout(cli.stderr):  # what plugins print is not part of the answer
        async with open_session(
            loaded,
            args,
            cli,
            asker=approver if interactive else None,
            progress=ProgressLine(cli.stderr),
            approve_hook=ask_hook_approval(cli) if interactive else None,
            goes_on=False,
            about=query,
        ) as (app, agent, folder):
            message = await app.opened(agent, query)
            if "@" in message.text:
                from hermes.tui import reference_expander  # loads the terminal interface

                message = await reference_expander(app, folder, cli.note)(agent, message)
            return await run_turn(agent, with_images(message, args.image), renderer)


def _query(args: Namespace, cli: Cli) -> str | None:
    """Return the question to answer once; None for a conversation, which may have a first prompt.

    A prompt is a question to answer once if the input or the output is not a terminal, or if the
    options ask for it. A trailing `-` stands for standard input.
    """
    query: str | None = args.query
    if query is not None and args.prompt:
        hint = f"quote it: hermes chat -q {shlex.quote(' '.join((query, *args.prompt)))}"
        raise UsageError(f"unexpected argument {args.prompt[0]!r} after -q", hint=hint)
    if query is None:
        if cli.interactive and not (args.prompt and (args.json or args.quiet)):
            if args.json:
                raise UsageError("--json needs a question", hint='hermes chat --json -q "…"')
            return None
        if cli.stdin.isatty() and not args.prompt:
            raise UsageError("a conversation needs a terminal", hint='hermes chat -q "…"')
        query = " ".join(args.prompt) or "-"
    if query == "-" or query.endswith(" -"):
        query = query[:-1] + cli.stdin.read()
    if not query.strip():
        raise UsageError("the question is empty", hint='hermes chat -q "what is in this folder?"')
    return query


def _overrides(args: Namespace) -> dict[str, Any]:
    """Return the given flags as settings."""
    if args.max_turns is not None and args.max_turns < 1:
        raise UsageError("--max-turns must be at least 1")
    given = {
        "model.default": args.model,
        "model.provider": args.provider or ("custom" if args.base_url else None),
        "model.base_url": args.base_url,
        "agent.max_turns": args.max_turns,
        "agent.save_trajectories": True if args.save_trajectories else None,
        "approvals.mode": "off" if args.yolo else None,
        "approvals.permission_mode": args.permission_mode,
        "checkpoints.enabled": True if args.checkpoints else None,
        "hooks_auto_accept": True if args.accept_hooks else None,
    }
    return {key: value for key, value in given.items() if value is not None}


PERMISSION_MODES = get_args(PermissionMode)
CONTINUE_HELP = "continue the latest session, or the latest with this title"
COMMAND = Command(
    "chat",
    run,
    "Talk to the agent. Without -q it is a conversation.",
    arg("prompt", nargs="*", metavar="PROMPT", help="the first message of the conversation"),
    arg("-q", "--query", metavar="TEXT", help="ask this, print the answer and end"),
    arg("-m", "--model", metavar="NAME", help="model to use"),
    arg("--provider", metavar="ID", help="provider to use (openrouter, openai, custom, local, …)"),
    arg("--base-url", metavar="URL", help="URL of an OpenAI-compatible endpoint"),
    arg("-r", "--resume", metavar="ID", help="continue this session (an id or a title)"),
    arg("-c", "--continue", dest="go_on", nargs="?", const="", metavar="TITLE", help=CONTINUE_HELP),
    arg(
        "-t",
        "--toolsets",
        metavar="NAMES",
        default="",
        help="toolsets to use, separated by commas; -NAME excludes one",
    ),
    repeated(
        "-s", "--skills", metavar="NAMES", help="skills to load, separated by commas; repeatable"
    ),
    repeated("--image", metavar="FILE", type=Path, help="a picture to ask about; repeatable"),
    arg("--max-turns", type=int, metavar="N", help="maximum model calls per turn"),
    flag("-w", "--worktree", help="work in a new git worktree"),
    flag("--checkpoints", help="keep copies of files before they change"),
    flag("--yolo", help="run dangerous commands without asking"),
    arg("--permission-mode", choices=PERMISSION_MODES, help="what is asked about at first"),
    flag("--accept-hooks", help="run the configured hooks without asking"),
    flag("--ignore-rules", help="ignore AGENTS.md and similar files, and memory"),
    flag("--ignore-user-config", help="ignore config.yaml"),
    flag("--pass-session-id", help=SUPPRESS),  # always the case
    flag("--save-trajectories", help="write the conversation to a trajectory file here"),
    arg("--source", default="cli", metavar="NAME", help="label stored with a new session"),
    flag("-v", "--verbose", help="show thinking and results in full"),
    flag("-Q", "--quiet", help="print the final answer only"),
    flag("--plain", help="plain lines, for screen readers"),
    flag("--tui", help=SUPPRESS),  # the default
    flag("--json", help="print every event as a JSON line"),
)

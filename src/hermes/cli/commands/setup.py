"""`hermes setup`: configure Hermes step by step."""

import asyncio
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import get_args

import msgspec

from hermes.app.tools import tool_rows
from hermes.cli.commands.model import format_fact, resolution_line, resolve_main_model
from hermes.cli.commands.setup_sections import (
    apply_agent,
    apply_model,
    apply_terminal,
    apply_tools,
    ask_agent,
    ask_model,
    ask_terminal,
    ask_tools,
    reload_settings,
    run_hermes,
)
from hermes.cli.context import Cli, Command, OneOf, Style, arg, flag
from hermes.config.home import tilde
from hermes.config.installation import install_extra
from hermes.config.settings import ApprovalSettings
from hermes.config.settings.base import terminal_names
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.ops.status import SetupRecord, reset_settings
from hermes.util.extras import EXTRAS
from hermes.util.text import many


def summary(cli: Cli) -> Iterator[str]:
    again = reload_settings(cli)
    settings = again.load().settings
    main = asyncio.run(resolve_main_model(again)).main
    yield format_fact("model", resolution_line(main, Style.of(cli.stdout)))
    if main.hint:
        yield format_fact("", main.hint)
    yield format_fact("commands", settings.terminal.backend)
    rows = tool_rows(again.load(), cli.home, "cli")
    yield format_fact("tools", f"{sum(row.on and not row.missing for row in rows)} of {len(rows)}")
    yield format_fact("approvals", settings.approvals.mode)
    yield format_fact("settings", tilde(cli.home.config_file))


# `hermes setup EXTRA`: install optional packages from our lock files.


def _install_extra_packages(name: str, cli: Cli) -> None:
    installed = asyncio.run(install_extra(name))
    if installed:
        cli.say(f"installed {many(len(installed), 'package')} for {name}: {', '.join(installed)}")
    else:
        cli.say(f"{name} is already installed")
    cli.say(f"next: {EXTRAS[name].next_step}")


def _unknown_name_error(name: str, sections: Iterable[str]) -> UsageError:
    close = get_close_matches(name, [*sections, *EXTRAS], n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "`hermes setup --help` lists them"
    return UsageError(f"there is nothing to set up with the name {name!r}", hint=hint)


def _extras_help() -> str:
    """Return the extras as lines for `hermes setup --help`."""
    width = max(map(len, EXTRAS))
    return "\n".join(f"  {name:<{width}}  {each.summary}" for name, each in EXTRAS.items())


class SetupSection(msgspec.Struct, frozen=True):
    title: str
    ask: Callable[[Cli], None]  #: Ask the user; saves each answer at once.
    apply: Callable[[Namespace, Cli], bool]  #: Apply the options; return False if none is given.


SECTIONS = {
    "model": SetupSection("The model that answers", ask_model, apply_model),
    "terminal": SetupSection("Where commands run", ask_terminal, apply_terminal),
    "tools": SetupSection("What the agent can use", ask_tools, apply_tools),
    "agent": SetupSection("How the agent works", ask_agent, apply_agent),
}
APPROVAL_MODES = get_args(ApprovalSettings.__annotations__["mode"])
NAMES = ("model", "tts", "terminal", "gateway", "tools", "agent")


def run(args: Namespace, cli: Cli) -> int:
    if args.section in EXTRAS:
        _install_extra_packages(args.section, cli)
        return 0
    if args.section and args.section not in NAMES:
        raise _unknown_name_error(args.section, NAMES)
    if args.section == "tts":
        cli.say("this version has no voice yet, so there is nothing to set up")
        return 0
    if args.section == "gateway":
        asked = ["--non-interactive"] if args.non_interactive else []
        return run_hermes(cli, "gateway", "setup", *asked)
    if args.reset and not _reset(args, cli):
        return 1
    applied = [section.apply(args, cli) for section in SECTIONS.values()]
    if not any(applied) and not args.non_interactive:
        _guide(args, cli)
    else:
        cli.say("\n".join(summary(cli)))
    return 0


def _reset(args: Namespace, cli: Cli) -> bool:
    question = "Set every setting back to its default? Keys and sessions stay."
    if not args.non_interactive and not cli.confirm(question):
        cli.say("nothing was changed")
        return False
    kept = reset_settings(cli.home, datetime.now(UTC).astimezone())
    cli.say(f"the old settings are kept as {tilde(kept)}" if kept else "there were no settings yet")
    return True


def _guide(args: Namespace, cli: Cli) -> None:
    if not cli.interactive:
        hint = "say what to set with options; `hermes setup --help` shows them"
        raise UsageError("cannot ask: this is not a terminal", hint=hint)
    try:
        _ask_sections([args.section] if args.section else list(SECTIONS), cli, bool(args.section))
    except (KeyboardInterrupt, Interrupted):
        again = f"hermes setup {args.section}" if args.section else "hermes setup"
        cli.say("")
        raise Interrupted(
            "stopped; what you answered is saved", hint=f"to continue: {again}"
        ) from None


def _ask_sections(names: list[str], cli: Cli, only_one: bool) -> None:
    record, style = SetupRecord(cli.home), Style.of(cli.stdout)
    done = () if only_one else record.done()
    if done:
        cli.say(f"Continuing where you stopped; done: {', '.join(done)}.")
    cli.say("Enter keeps what is there, Ctrl-C stops; every answer is saved at once.")
    for name in names:
        if name in done:
            continue
        cli.say(f"\n{style.bold(SECTIONS[name].title)}")
        try:
            SECTIONS[name].ask(cli)
        except Interrupted:
            raise
        except HermesError as error:
            cli.say(style.bad(f"  {error}"))
            cli.say(f"  {error.hint}" if error.hint else f"  again: hermes setup {name}")
        else:
            if not only_one:
                record.add(name)
    if not only_one:
        record.clear()
    cli.say("\n".join(("", *summary(cli))))
    said = cli.ask("Try it: type a question (Enter ends): ").strip()
    if said:
        run_hermes(cli, "chat", "-q", said)
    cli.say("`hermes` starts a chat, `hermes setup` changes this again.")


COMMAND = Command(
    "setup",
    run,
    """\
Set Hermes up. Each answer is saved at once; Enter keeps what is there; Ctrl-C stops, and the next
`hermes setup` goes on from there. With options it asks nothing and sets what they say. With the
name of an extra it installs optional packages: the versions and hashes come with Hermes.""",
    arg("section", nargs="?", metavar="NAME", help="a section or an extra, listed below"),
    flag("--non-interactive", help="ask nothing"),
    flag("--reset", help="begin anew; the old config.yaml is kept"),
    arg("--provider", metavar="ID", help="provider of the model (openrouter, anthropic, local, …)"),
    arg("--model", metavar="NAME", help="the model; without it the provider's default"),
    arg("--base-url", metavar="URL", help="address of an endpoint of your own"),
    OneOf(
        arg("--api-key-env", metavar="NAME", help="save the key of this variable"),
        flag("--api-key-stdin", help="read the key from stdin"),
    ),
    arg("--terminal-backend", choices=terminal_names(), help="where commands run"),
    arg("--toolsets", metavar="NAMES", help="toolsets and tools to use, with commas between"),
    arg("--approvals", choices=APPROVAL_MODES, help="what happens before dangerous commands"),
    arg("--max-turns", metavar="N", help="most model calls in one turn"),
    epilog=f"""\
sections, to set up only this part:
  model, terminal, gateway, tools, agent, tts

extras, to install the packages for something optional:
{_extras_help()}

examples:
  hermes setup                            everything, question by question
  hermes setup model                      only the model and its key
  hermes setup otel                       install the packages for OpenTelemetry
  hermes setup --non-interactive --provider openrouter --api-key-env OPENROUTER_API_KEY
  pass show openrouter | hermes setup --provider openrouter --api-key-stdin
  hermes setup --base-url http://127.0.0.1:8080/v1 --model qwen3
  hermes setup --provider local           the embedded model: no key, works offline
  hermes setup --terminal-backend sandbox --toolsets file,terminal,web

exit codes: 0 done, 1 packages cannot be installed, 2 wrong usage, 4 the key is missing, 130 stopped
""",
)

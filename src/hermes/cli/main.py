"""The `hermes` command: find the subcommand, run it, turn an error into a line and an exit code."""

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from hermes import __version__
from hermes.core.errors import HermesError, Interrupted, UsageError

if TYPE_CHECKING:
    from hermes.cli.context import Cli, Command


# `hermes --version` and `--help` must start fast: everything else is imported where it is used.

OK, BUG = 0, 70
PIPE_CLOSED = 141

SWITCHES = (
    "-w", "--worktree", "--yolo", "--pass-session-id", "--ignore-user-config", "--ignore-rules",
    "--accept-hooks", "--tui", "--plain",
)  # fmt: skip
"""Options of `hermes chat` that may precede the command."""

USAGE = """\
usage: hermes [-p PROFILE] [COMMAND] [OPTIONS]
       hermes "PROMPT"

A personal AI agent. Without a command it starts a chat.

options:
  -p, --profile NAME    use the home of this profile
  -V, --version         show the version
  -h, --help            show this help

{commands}

examples:
  hermes "fix the failing test"
  hermes --continue
  hermes chat -q "how many Python files are in this folder?"

{more}
"""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Lists the actions of a command without the line that names their placeholder."""

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            return "".join(map(self._format_action, action._get_subactions()))  # noqa: SLF001 - same
        return super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of exiting."""

    path = ""  #: The name of the command in `help.toml`, such as `sessions list`.
    takes_program = False  #: The words after `--` are a program and its arguments, `program`.

    def __init__(self, *, add_help: bool = True, **options: Any) -> None:
        options.setdefault("formatter_class", HelpFormatter)  # a plugin may choose another
        super().__init__(add_help=False, **options)
        self._positionals.title = "arguments"
        self.set_defaults(selected_parser=self)
        if add_help:
            self.add_argument("-h", "--help", action="help", help="show this help")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parsed.selected_parser.reject(unknown)
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words: list[str] = list(args)
        at = words.index("--") if self.takes_program and "--" in words else len(words)
        parsed, unknown = super().parse_known_args(words[:at], namespace)
        if self.takes_program:
            parsed.program = words[at + 1 :]
        return parsed, unknown

    def reject(self, unknown: list[str]) -> NoReturn:
        """Raise a `UsageError` for arguments that the command does not take."""
        option = next((word for word in unknown if word.startswith("-")), "")
        if not option:
            self.error(f"unexpected argument {unknown[0]!r}")
        name = option.partition("=")[0]
        options = [
            flag
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for flag in action.option_strings
        ]
        self.error(f"there is no option {name}", _close_match(name, options))

    def error(self, message: str, suggestion: str = "") -> NoReturn:
        suggested = f"did you mean {suggestion}? " if suggestion else ""
        raise UsageError(message, hint=f"{suggested}`{self.prog} --help` shows the options")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        is_action = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 - as above
        if is_action and value not in (action.choices or ()):
            self.error(f"there is no action {value!r}", _close_match(value, action.choices or ()))
        super()._check_value(action, value)

    def format_help(self) -> str:
        self.read_texts()
        return super().format_help()

    def read_texts(self) -> None:
        """Read the description and the examples of the command."""
        import tomllib  # only for help
        from pathlib import Path

        text = Path(__file__).with_name("help.toml").read_text("utf-8")
        texts = tomllib.loads(text).get(self.path, {})
        self.description = texts.get("description") or self.description
        self.epilog = "\n\n".join(filter(None, (texts.get("epilog"), self.epilog))) or None
        self.path = ""


def _close_match(word: str, names: Iterable[str]) -> str:
    """Return the name that is most like a misspelt word; "" if none is."""
    from difflib import get_close_matches  # only for a wrong command line

    return "".join(get_close_matches(word, list(names), n=1))


class CommandEntry(NamedTuple):
    """A subcommand as `hermes --help` lists it, and where its code is."""

    name: str
    summary: str
    target: str = ""
    """`module:ATTRIBUTE` below `hermes.cli.commands`, unless it is `NAME:COMMAND`."""
    rare: bool = False  #: Only `hermes help --all` lists it.

    def load(self) -> "Command":
        """Import the module of the command."""
        module, _, attribute = (self.target or f"{self.name}:COMMAND").partition(":")
        found = getattr(import_module(f"{__package__}.commands.{module}"), attribute)
        return cast("Command", found)

    def parser(self, prog: str = "", command: "Command | None" = None, **options: Any) -> Parser:
        """Return the parser of the command, which is loaded unless it is given."""
        parser = Parser(prog=prog or f"hermes {self.name}", **options)
        (command or self.load()).configure(parser)
        return parser


GROUPS = {
    "talk": (
        CommandEntry("chat", "talk to the agent, or ask one question with -q"),
        CommandEntry("sessions", "list, search, continue and manage past conversations"),
        CommandEntry("checkpoints", "list, compare and undo file changes", "backup:CHECKPOINTS"),
        CommandEntry("insights", "show how the agent was used, as charts", "status:INSIGHTS"),
        CommandEntry("trajectory", "show and convert saved trajectories", rare=True),
    ),
    "model and keys": (
        CommandEntry("setup", "set Hermes up, question by question or by options"),
        CommandEntry("auth", "add, list and remove API keys and logins"),
        CommandEntry("model", "show, choose and test the model that answers", "model:MODEL"),
        CommandEntry("models", "list models with their context and prices", "model:MODELS"),
        CommandEntry("local", "download and choose the embedded model", "model:LOCAL"),
        CommandEntry("fallback", "models to use when the first one fails", "model:FALLBACK", True),
    ),
    "abilities": (
        CommandEntry("tools", "show and choose the tools of the agent", "tools:TOOLS"),
        CommandEntry("skills", "find, install, change and share skills", "skills_hub:COMMAND"),
        CommandEntry("memory", "show, edit and delete memories; choose a provider"),
        CommandEntry("mcp", "add, import, test and configure MCP servers", "mcp_setup:COMMAND"),
        CommandEntry("plugins", "install, enable and disable plugins"),
        CommandEntry("approvals", "explain which commands need approval", "tools:APPROVALS"),
        CommandEntry("hooks", "show, test and revoke shell hooks", rare=True),
        CommandEntry("prompt", "show the system prompt and its size", "tools:PROMPT", True),
    ),
    "editors and programs": (
        CommandEntry("acp", "serve an editor over the Agent Client Protocol"),
        CommandEntry("batch", "generate trajectories from a file of prompts"),
        CommandEntry("capture", "record the tokens of any agent for training", rare=True),
        CommandEntry("eval", "evaluate models on task sets; report and compare"),
    ),
    "chats and schedules": (
        CommandEntry("gateway", "connect Telegram, Discord, Slack and other chats"),
        CommandEntry("cron", "schedule jobs, and show past runs"),
        CommandEntry("pairing", "approve users who ask with a code", "gateway:PAIRING", True),
        CommandEntry("webhook", "addresses that other programs call", rare=True),
    ),
    "maintenance": (
        CommandEntry("status", "show what is set up and whether it works", "status:STATUS"),
        CommandEntry("config", "show, explain and change settings"),
        CommandEntry("doctor", "find problems, and fix what is safe to fix", "doctor:DOCTOR"),
        CommandEntry("backup", "write settings, keys and sessions to one file", "backup:BACKUP"),
        CommandEntry("import", "restore an archive of `hermes backup`", "backup:IMPORT"),
        CommandEntry("update", "update Hermes, or return to the last version", "update:UPDATE"),
        CommandEntry("profile", "create, choose, export and import profiles", rare=True),
        CommandEntry("logs", "read the log files", "doctor:LOGS", True),
        CommandEntry("dump", "print a summary for a bug report", "doctor:DUMP", True),
        CommandEntry("debug", "write a bug report file without secrets", "doctor:DEBUG", True),
        CommandEntry("run", "run a script written for the documented Python names", rare=True),
        CommandEntry("lab", "a scripted model server for trying things out", rare=True),
        CommandEntry("completion", "print a completion script for your shell", rare=True),
        CommandEntry("version", "show the version", "status:VERSION", True),
        CommandEntry(
            "uninstall", "remove Hermes; your data only with --full", "update:UNINSTALL", True
        ),
    ),
}
"""The commands in the order of the help text."""

COMMANDS = tuple(entry for entries in GROUPS.values() for entry in entries)

DEFAULT = "chat"


def find_entry(name: str) -> CommandEntry | None:
    """Return the built-in command of this name."""
    return next((command for command in COMMANDS if command.name == name), None)


class ParsedArguments(NamedTuple):
    """The parsed command line."""

    command: CommandEntry | None  #: None if only help or the version is shown.
    arguments: list[str]
    profile: str | None
    wants: str = ""  #: `help`, `help --all` or `version`.


def run_hermes(cli: "Cli", name: str, *words: str) -> int:
    """Run `hermes NAME WORDS` inside another command, with settings read anew."""
    from hermes.cli.context import Cli, run_command  # loads the settings, which help does not need

    entry = find_entry(name) or CommandEntry(name, "")
    again = Cli(cli.home, cli.stdin, cli.stdout, cli.stderr)
    return run_command(entry.parser().parse_args(words), again)


def run_acp() -> NoReturn:
    """Entry point of the installed script `hermes-acp`."""
    sys.argv[1:1] = ["acp"]
    run()


def run() -> NoReturn:
    """Entry point of the installed script and of `python -m hermes`."""
    # A start makes many objects that stay; looking for cycles among them every 700 takes 30 ms.
    gc.set_threshold(10_000, 10, 10)
    done: list[int] = []
    # The first handler registered runs last, when threads have ended and all others have run.
    atexit.register(_leave, done)
    done.append(main(sys.argv[1:]))
    sys.exit(done[0])


def _leave(done: list[int]) -> None:
    """End the process without freeing each module and object, which takes longer than an answer."""
    if sys.gettrace() or sys.getprofile():
        return  # the handler of a tracer or profiler, which is older than ours, is still to run
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return  # the interpreter reports what could not be written
    for code in done:
        os._exit(code)


def main(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except HermesError as error:
        return _print_error(error)
    except KeyboardInterrupt:
        import signal  # only after Ctrl-C

        # A second one, such as `timeout` forwards, would show a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _print_error(Interrupted())
    except BrokenPipeError:
        # The reader of our output has exited (`hermes … | head`). Write nothing more, also at exit.
        sys.stdout = sys.stderr = None
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the last boundary: a bug shows no traceback
        from hermes.app import record_crash  # only after a failure

        where = record_crash(error)
        problem = f"internal error: {type(error).__name__}: {error}"
        _print_error(HermesError(problem, hint=f"this is a bug; the details are in {where}"))
        return BUG


def _dispatch(argv: list[str]) -> int:
    invocation = parse(argv)
    if invocation.wants == "version":
        sys.stdout.write(f"hermes {__version__}\n")
        return OK
    if invocation.command is None:
        sys.stdout.write(overview(all_commands=invocation.wants == "help --all"))
        sys.stdout.write(plugin_commands_help(invocation.profile))
        return OK
    from hermes.compat import install  # not for --version and --help

    install()  # plugins may import the documented names
    command = _load(invocation.command, invocation.profile)
    args = invocation.command.parser(command=command).parse_args(invocation.arguments)
    from hermes.cli.context import Cli, run_command  # loads the settings, which help does not need

    return run_command(args, Cli.open(invocation.profile))


def overview(*, all_commands: bool) -> str:
    """Return the text of `hermes --help` or `hermes help --all`."""
    width = max(len(command.name) for command in COMMANDS)
    groups = []
    for title, entries in GROUPS.items():
        shown = [entry for entry in entries if all_commands or not entry.rare]
        lines = [f"  {entry.name:<{width}}  {entry.summary}" for entry in shown]
        groups.append("\n".join([f"{title}:", *lines]))
    more = "`hermes help COMMAND` explains a command."
    if not all_commands:
        more = f"{more[:-1]}; `hermes help --all` lists {len(COMMANDS)} commands."
    return USAGE.format(commands="\n\n".join(groups), more=more)


def _load(entry: CommandEntry, profile: str | None) -> "Command":
    """Import a command: one of ours, or one that a plugin or the memory provider adds."""
    if entry in COMMANDS:
        return entry.load()
    from hermes.cli.extensions import find_command  # runs plugins

    command = find_command(entry.name, profile)
    if command is None:
        close = _close_match(entry.name, [command.name for command in COMMANDS])
        suggested = f"did you mean `hermes {close}`? " if close else ""
        hint = f'{suggested}`hermes --help` lists the commands; to ask something: hermes "…"'
        raise UsageError(f"there is no command {entry.name!r}", hint=hint)
    return command


def parse(argv: list[str]) -> ParsedArguments:
    """Parse the options of `hermes` and the command; the rest is for the command.

    Without a command it is the default command. A first argument that has a space in it is not a
    command but a prompt for the default command; a single word is always a command.
    """
    rest, profile = list(argv), None
    chat: list[str] = []
    while rest:
        word = rest[0]
        if word in ("-V", "--version"):
            return ParsedArguments(None, [], profile, "version")
        if word in ("-h", "--help", "help"):
            return _parse_help(rest[1:], profile)
        if word in ("-p", "--profile"):
            if len(rest) < 2:
                raise UsageError(f"{word} needs the name of a profile", hint="hermes profile list")
            profile, rest = rest[1], rest[2:]
        elif word.startswith("--profile="):
            profile, rest = word.partition("=")[2], rest[1:]
        elif size := _count_chat_words(rest):
            chat, rest = chat + rest[:size], rest[size:]
        else:
            break
    default = find_entry(DEFAULT)
    if not rest or rest[0].startswith("-") or len(rest[0].split()) > 1:
        return ParsedArguments(default, chat + rest, profile)
    command = find_entry(rest[0]) or CommandEntry(rest[0], "brought by an extension")
    if chat and command != default:
        raise UsageError(f"{chat[0]} is an option of `hermes chat`, not of {command.name}")
    return ParsedArguments(command, chat + rest[1:], profile)


def _parse_help(words: list[str], profile: str | None) -> ParsedArguments:
    """Parse what follows `help`: a command and its action, or `--all`."""
    named = [word for word in words if not word.startswith("-")]
    if not named:
        return ParsedArguments(None, [], profile, "help --all" if "--all" in words else "help")
    command = find_entry(named[0]) or CommandEntry(named[0], "brought by an extension")
    return ParsedArguments(command, [*named[1:], "--help"], profile)


def _count_chat_words(rest: list[str]) -> int:
    """Return how many words a leading option of `hermes chat` takes; 0 if it is not one."""
    word, following = rest[0], rest[1:2]
    if word in SWITCHES:
        return 1
    if word in ("-r", "--resume"):
        return 2
    if word in ("-c", "--continue"):
        named = following and not following[0].startswith("-") and not find_entry(following[0])
        return 2 if named else 1
    return 0


def _print_error(error: HermesError) -> int:
    text = f"hermes: {error}" + (f"\n  {error.hint}" if error.hint else "")
    if sys.stderr.isatty():
        # An error may quote text from anywhere.
        from hermes.cli.context import fit_terminal
        from hermes.util.text import terminal_text

        text = fit_terminal(terminal_text(text), sys.stderr)
    sys.stderr.write(f"{text}\n")
    return error.exit_code


def plugin_commands_help(profile: str | None) -> str:
    """Return the last lines of `hermes --help`: the commands of plugins and the memory provider.

    Usually empty. No plugin is run for it: the commands are those seen when it was last loaded.
    """
    import re  # only for help

    from hermes.config.home import Home  # only for help

    try:
        home = Home.resolve(profile)
        # Most settings name no plugin. Do not parse YAML to find that out: help must be fast.
        named = rb"^[^#\n]*\b(?:plugins|memory)\b"
        if not re.search(named, home.config_file.read_bytes(), re.MULTILINE):
            return ""
        from hermes.config.document import read_document

        data = read_document(home.config_file).data
    except (HermesError, OSError):  # every other command reports what is wrong
        return ""
    plugins = _section(data, "plugins")
    disabled = _names(plugins, "disabled")
    enabled = [name for name in _names(plugins, "enabled") if name not in disabled]
    from pathlib import Path  # `--version` needs neither it nor what it imports

    bundled = Path(__file__).parents[2] / "hermes_plugins" / "memory"
    own = (home.plugins / "memory", home.plugins)
    providers = [
        name
        for name in _names(_section(data, "memory"), "provider")
        if any(
            (folder / name / "cli.py").is_file()
            for folder in ((bundled,) if name in disabled else (*own, bundled))
        )
    ]
    from hermes.plugins import cached_commands  # only where plugins are enabled

    known = cached_commands(home.cache)
    commands = [
        *(f"{name} (memory provider)" for name in providers),
        *(
            f"{name} (plugin {plugin})"
            for plugin in enabled
            for name in known.get(plugin) or ()
            if find_entry(name) is None
        ),
    ]
    unknown = ", ".join(name for name in enabled if name not in known)
    lines = [
        *([f"also: {', '.join(commands)}"] if commands else []),
        *([f"may add commands, listed here once loaded: {unknown}"] if unknown else []),
    ]
    return "".join(f"\n{line}\n" for line in lines)


def _section(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _names(section: dict[str, Any], key: str) -> list[str]:
    """Return the names under a key: one, or a list of them. The settings are not checked yet."""
    value = section.get(key)
    values = value if isinstance(value, list) else [value]
    return [name for name in values if name and isinstance(name, str)]

"""`hermes setup`: configure Hermes step by step."""

import asyncio
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib.util import find_spec
from typing import NamedTuple, get_args

import msgspec

from hermes.app import ToolRow, find_toolsets, set_tool_enabled, tool_rows
from hermes.cli.commands.auth import LONGEST_KEY, check_key
from hermes.cli.commands.config import confirm_change
from hermes.cli.commands.model import (
    ModelWizard,
    format_fact,
    open_providers,
    resolution_line,
    resolve_main_model,
)
from hermes.cli.context import Cli, Command, OneOf, arg, flag
from hermes.cli.main import run_hermes
from hermes.cli.output import has_picker, pick_named
from hermes.cli.session import split_names
from hermes.config import edit
from hermes.config.edit import assign
from hermes.config.environment import search_path
from hermes.config.home import ensure_hermes_home, tilde, unusable
from hermes.config.installation import install_extra
from hermes.config.settings import ApprovalSettings
from hermes.config.settings.base import terminal_names
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.ops import CredentialService, SetupRecord, reset_settings
from hermes.prompt import DEFAULT_AGENT_IDENTITY, SOUL
from hermes.providers import CUSTOM, LOCAL, endpoints
from hermes.providers.local import resolve_weights
from hermes.tools import switch_toolsets
from hermes.util.concurrency import SystemClock
from hermes.util.extras import extras, install_hint
from hermes.util.lazy import bundled_manifest, bundled_names
from hermes.util.text import human_size, many


class SettingQuestion(msgspec.Struct, frozen=True):
    key: str  #: The setting.
    text: str
    choices: dict[str, str] = {}  #: Values and their meanings, numbered; empty for free text.


def reload_settings(cli: Cli) -> Cli:
    """Return a `Cli` that reads the settings again."""
    return Cli(cli.home, cli.stdin, cli.stdout, cli.stderr)


def save_setting(cli: Cli, key: str, text: str) -> None:
    """Save a setting. Raises `HermesError` if the value is invalid."""
    change = assign(key, text)
    edit.set_value(cli.home, change.parts, change.value)
    confirm_change(cli, change.parts)


def ask_setting(question: SettingQuestion, cli: Cli) -> str:
    """Ask until the answer is valid; return the value in use afterwards."""
    value = reload_settings(cli).load().value(question.key)
    is_whole = isinstance(value, float) and value.is_integer()
    now = "" if value is None else str(int(value) if is_whole else value)
    if question.choices and has_picker(cli):
        said = _pick_name(question.text, question.choices, now, cli) or now
        cli.say(f"  {question.text}: {said or 'not set'}")
        if said != now:
            save_setting(cli, question.key, said)
        return said
    for number, (choice, meaning) in enumerate(question.choices.items(), start=1):
        mark = "*" if choice == now else " "
        cli.say(f" {mark}{number}  {choice or '(default)':<12} {meaning}")
    while True:
        said = cli.ask(f"  {question.text} [{now or 'not set'}]: ").strip()
        if not said:
            return now
        said = pick_named(said, list(question.choices))
        try:
            save_setting(cli, question.key, said)
        except HermesError as error:
            cli.say(f"  {error}")
        else:
            return said


def _pick_name(title: str, names: Mapping[str, str], now: str, cli: Cli) -> str:
    """Let the user choose with the arrow keys; return "" after Escape, which keeps everything."""
    from hermes.tui import PickerItem  # loads the terminal interface

    items = [PickerItem(name or "(default)", meaning, name) for name, meaning in names.items()]
    title = f"{title} (Esc keeps{f' {now}' if now else ''})"
    chosen = asyncio.run(cli.pick(title, items, selected=now))
    return chosen or ""


# `hermes setup model`.

KNOWN = ("openrouter", "anthropic", "openai", "gemini", "nous", "ollama")
"""Offered in addition to configured providers; others can be typed."""
OTHER = "another"  #: The entry of the list for a provider that is not in it.
OWN_KEY = "CUSTOM_API_KEY"


def ask_model(cli: Cli) -> None:
    now = asyncio.run(resolve_main_model(reload_settings(cli))).main
    cli.say(f"  now: {resolution_line(now, cli.paint)}")
    if now.provider == LOCAL:
        why = "A small embedded model: no API key, and nothing leaves this machine. For a strong "
        why += "model, choose a provider and add its key."
        cli.say(f"  {why}")
    offers, picks = _provider_offers(cli), has_picker(cli)
    for number, (name, why) in enumerate(() if picks else offers, start=1):
        cli.say(f"  {number:>2}  {name:<14} {why}")
    while True:
        said = OTHER
        if picks:
            names = {**dict(offers), OTHER: "any of `hermes auth list`, by its name"}
            said = _pick_name("Which provider?", names, now.provider, cli)
        if said == OTHER:
            said = cli.ask("  provider, by number or name (Enter keeps the current one): ").strip()
        if not said:
            cli.say(f"  provider unchanged: {now.provider}")
            return
        try:
            _use_provider(pick_named(said, [name for name, _ in offers]), cli)
        except UsageError as error:
            cli.say(f"  {error}")
        else:
            return


def apply_model(args: Namespace, cli: Cli) -> bool:
    has_key = bool(args.api_key_env or args.api_key_stdin)
    if not (args.provider or args.model or args.base_url or has_key):
        return False
    provider = args.provider or (CUSTOM if args.base_url else "")
    if not provider and not has_key:
        run_hermes(cli, "model", "set", args.model)
        return True
    if not provider:
        raise UsageError("the key of which provider?", hint="name it with --provider")
    if provider == CUSTOM and not args.model:
        raise UsageError("an endpoint of your own needs a model", hint="name it with --model")
    key = check_key(_read_given_key(args, cli)) if has_key else ""
    _choose_with_key(provider, args.model or "", args.base_url or "", key, cli)
    return True


def _provider_offers(cli: Cli) -> list[tuple[str, str]]:
    """Return the offered providers with a reason for each."""
    found = asyncio.run(resolve_main_model(reload_settings(cli)))
    ready = [found.main.provider, *(one.provider for one in found.also)]
    offers = {name: "ready" for name in ready if name not in (LOCAL, CUSTOM)}
    for name in KNOWN:
        if endpoint := endpoints.find_endpoint(name):
            offers.setdefault(endpoint.id, endpoint.label)
    offers[CUSTOM] = "an OpenAI-compatible server, by its URL"
    offers[LOCAL] = "the embedded model: no key, works offline once downloaded (491 MB)"
    return list(offers.items())


def _use_provider(name: str, cli: Cli) -> None:
    if name == CUSTOM:
        _ask_own_endpoint(cli)
        return
    endpoint = _credentials(cli).endpoint(name)
    if endpoint.needs_key and not _credentials(cli).rows(endpoint):
        run_hermes(cli, "auth", "add", endpoint.id)

    async def pick() -> str:
        async with open_providers(reload_settings(cli)) as providers:
            return await ModelWizard(cli, providers).model_of(endpoint.id)

    try:
        model = asyncio.run(pick())
    except UsageError:
        raise
    except HermesError as error:
        cli.say(f"  cannot list its models: {error}")
        model = cli.ask("  model (Enter for its default): ").strip()
    _choose_model(endpoint.id, model, "", cli)
    if endpoint.id == LOCAL:
        name = model or reload_settings(cli).load().settings.local.model
        weights = resolve_weights(name, cli.home.models)
        is_here = (cli.home.models / weights.file).is_file()
        question = f"  download its weights now ({human_size(weights.size)})?"
        if not is_here and cli.confirm(question):
            run_hermes(cli, "local", "pull", weights.id)


def _ask_own_endpoint(cli: Cli) -> None:
    address = cli.ask("  URL, such as http://127.0.0.1:8080/v1: ").strip()
    if not address:
        cli.say("  no URL: the provider is unchanged")
        return
    key = cli.ask_secret("  API key (not shown; Enter for none): ").strip()
    key = check_key(key) if key else ""
    said = {"provider": CUSTOM, "base_url": address, "api_key": key, "default": "-"}
    loaded = reload_settings(cli).load({f"model.{name}": value for name, value in said.items()})

    async def pick() -> str:
        async with open_providers(cli, loaded) as there:
            return await ModelWizard(cli, there).model_at(await there.main())

    if model := asyncio.run(pick()):
        _choose_with_key(CUSTOM, model, address, key, cli)
    else:
        cli.say("  no model chosen: the provider is unchanged")


def _choose_model(provider: str, model: str, base_url: str, cli: Cli) -> None:
    endpoint = endpoints.find_endpoint(provider.lower())
    if not model and endpoint is not None:
        model = endpoint.default_model
    text = f"{provider}:{model}"
    run_hermes(cli, "model", "set", text, *(("--base-url", base_url) if base_url else ()))


def _read_given_key(args: Namespace, cli: Cli) -> str:
    if args.api_key_stdin:
        return cli.stdin.read(LONGEST_KEY + 1)
    found = reload_settings(cli).load().variable(args.api_key_env)
    if not found:
        raise UsageError(
            f"the variable {args.api_key_env} is not set", hint="or pipe the key: --api-key-stdin"
        )
    return found


def _choose_with_key(provider: str, model: str, base_url: str, key: str, cli: Cli) -> None:
    """Save a key and a model.

    The key of a provider goes to auth.json before the model, which is not saved without a key. The
    key of a custom address goes to .env after the address, so that it is never sent to another one.
    """
    endpoint = _credentials(cli).endpoint(provider)
    if key and endpoint.id != CUSTOM:
        if endpoint.id == LOCAL or endpoint.api_mode == "acp":
            raise UsageError(f"{endpoint.label} takes no key")
        _credentials(cli).add(endpoint, key, "")
    _choose_model(provider, model, base_url, cli)
    if key and endpoint.id == CUSTOM:
        edit.set_variable(cli.home, OWN_KEY, key)
        edit.set_value(cli.home, ("model", "api_key"), f"${{{OWN_KEY}}}")


def _credentials(cli: Cli) -> CredentialService:
    return CredentialService(cli.home, reload_settings(cli).load(), SystemClock())


# `hermes setup terminal`.


class BackendChoice(msgspec.Struct, frozen=True):
    name: str
    meaning: str
    programs: tuple[str, ...] = ()  #: Programs of which one must be installed.
    package: str = ""  #: A required Python package; the extra has the same name.
    questions: tuple[tuple[str, str], ...] = ()  #: Settings below `terminal`, and their questions.


BACKENDS = (
    BackendChoice("local", "on this machine, as you"),
    BackendChoice("sandbox", "on this machine, in a bubblewrap sandbox", ("bwrap",)),
    BackendChoice(
        "docker",
        "in a container: Docker or Podman",
        ("docker", "podman"),
        questions=(("docker_image", "image"),),
    ),
    BackendChoice(
        "ssh",
        "on another machine",
        ("ssh",),
        questions=(
            ("ssh_host", "host name or address"),
            ("ssh_user", "user name"),
            ("ssh_port", "port"),
            ("ssh_key", "private key file"),
        ),
    ),
)
COMMON = ("timeout", "time limit for a command, in seconds")


def _backends() -> tuple[BackendChoice, ...]:
    """Return the backends of Hermes and of the bundled plugins."""
    bundled = [bundled_manifest("terminals", name) for name in bundled_names("terminals")]
    return BACKENDS + tuple(
        BackendChoice(one.name, one.summary, one.programs, one.package, tuple(one.questions))
        for one in bundled
    )


def ask_terminal(cli: Cli) -> None:
    backends = _backends()
    offers = {one.name: f"{one.meaning}{_missing_requirement(one)}" for one in backends}
    chosen = ask_setting(SettingQuestion("terminal.backend", "run commands", offers), cli)
    own = next((one.questions for one in backends if one.name == chosen), ())
    for key, text in (*own, COMMON):
        ask_setting(SettingQuestion(f"terminal.{key}", text), cli)


def apply_terminal(args: Namespace, cli: Cli) -> bool:
    if not args.terminal_backend:
        return False
    save_setting(cli, "terminal.backend", args.terminal_backend)
    cli.say(f"terminal backend: {args.terminal_backend}")
    for backend in _backends():
        if backend.name == args.terminal_backend and (lack := _missing_requirement(backend)):
            cli.note(f"note:{lack}")
    return True


def _missing_requirement(backend: BackendChoice) -> str:
    """Return what the backend lacks on this machine, or ""."""
    path = search_path()
    if backend.programs and not any(shutil.which(one, path=path) for one in backend.programs):
        return f" (needs {' or '.join(backend.programs)}, not found here)"
    if backend.package and find_spec(backend.package) is None:
        return f" (needs: {install_hint(backend.package)})"
    return ""


# `hermes setup tools`.

PLATFORM = "cli"


def _pick_toolset(sets: Mapping[str, list[ToolRow]], last: str, cli: Cli) -> str:
    """Return the toolset to switch on or off; "" when the user is done."""
    from hermes.tui import PickerItem  # loads the terminal interface

    items = [
        PickerItem(f"{'✓' if any(row.on for row in rows) else '·'} {name}", rows[0].purpose, name)
        for name, rows in sets.items()
    ]
    title = "Which tools? Enter switches one on or off, Esc when done"
    chosen = asyncio.run(cli.pick(title, items, selected=last))
    return chosen or ""


def ask_tools(cli: Cli) -> None:
    said = ""
    while True:
        sets: dict[str, list[ToolRow]] = {}
        for row in tool_rows(reload_settings(cli).load(), cli.home, PLATFORM):
            sets.setdefault(row.toolset, []).append(row)
        if has_picker(cli):
            said = _pick_toolset(sets, said, cli)
        else:
            for number, (name, rows) in enumerate(sets.items(), start=1):
                mark = "✓" if any(row.on for row in rows) else "·"
                cli.say(f"  {number:>2} {mark} {name:<16} {rows[0].purpose}")
            said = cli.ask("  switch on or off, by numbers or names (Enter to continue): ").strip()
        if not said:
            return
        try:
            for name in [pick_named(one.strip(), list(sets)) for one in said.split(",")]:
                on = not any(row.on for row in sets.get(name, []))
                set_tool_enabled(reload_settings(cli).load(), cli.home, PLATFORM, [name], on=on)
        except UsageError as error:
            cli.say(f"  {error}")


def apply_tools(args: Namespace, cli: Cli) -> bool:
    if args.toolsets is None:
        return False
    names = split_names([args.toolsets])
    known = find_toolsets(reload_settings(cli).load()).known
    plain = [name for name in names if not name.startswith("-")]
    now = switch_toolsets((), plain, known, on=True)
    now = switch_toolsets(now, [name[1:] for name in names if name not in plain], known, on=False)
    edit.set_value(cli.home, ("platform_toolsets", PLATFORM), now)
    cli.say(f"tools: {', '.join(now) or 'none'}")
    return True


# `hermes setup agent`.

QUESTIONS = (
    SettingQuestion(
        "approvals.mode",
        "approval of dangerous commands",
        {
            "manual": "ask me",
            "smart": "a model decides clear cases, and asks me about the others",
            "deny": "refuse them",
            "off": "never ask; use this only in a disposable environment",
        },
    ),
    SettingQuestion(
        "agent.reasoning_effort",
        "reasoning effort: none, minimal, low, medium, high or xhigh",
    ),
    SettingQuestion("agent.max_turns", "maximum model calls per turn"),
    SettingQuestion("budget.day_usd", "daily spending limit in US dollars"),
    SettingQuestion("timezone", "time zone, such as Europe/Berlin"),
)


def ask_agent(cli: Cli) -> None:
    for question in QUESTIONS:
        ask_setting(question, cli)


def apply_agent(args: Namespace, cli: Cli) -> bool:
    given = {"approvals.mode": args.approvals, "agent.max_turns": args.max_turns}
    said = {key: value for key, value in given.items() if value is not None}
    for key, value in said.items():
        save_setting(cli, key, value)
        cli.say(f"{key}: {value}")
    return bool(said)


def summary(cli: Cli) -> Iterator[str]:
    again = reload_settings(cli)
    settings = again.load().settings
    main = asyncio.run(resolve_main_model(again)).main
    yield format_fact("model", resolution_line(main, cli.paint))
    if main.hint:
        yield format_fact("", main.hint)
    yield format_fact("commands", settings.terminal.backend)
    rows = tool_rows(again.load(), cli.home, "cli")
    usable = sum(row.on and not row.missing for row in rows)
    yield format_fact("tools", f"{usable} of {len(rows)} enabled")
    yield format_fact("approvals", settings.approvals.mode)
    saved = "" if cli.home.config_file.exists() else " (not written yet: all are defaults)"
    yield format_fact("settings", tilde(cli.home.config_file) + saved)


EXTRAS_HELP = "extras, to install the packages for something optional:\n" + "\n".join(
    f"  {name:<{max(map(len, extras()))}}  {each.summary}" for name, each in extras().items()
)


class SetupSection(NamedTuple):
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
    if args.section in extras():
        if installed := asyncio.run(install_extra(args.section)):
            packages = f"{many(len(installed), 'package')} for {args.section}"
            cli.say(f"installed {packages}: {', '.join(installed)}")
        else:
            cli.say(f"{args.section} is already installed")
        cli.say(f"next: {extras()[args.section].next_step}")
        return 0
    if args.section and args.section not in NAMES:
        close = " or ".join(get_close_matches(args.section, [*NAMES, *extras()], n=3))
        hint = f"did you mean {close}?" if close else "`hermes setup --help` lists them"
        problem = f"there is nothing to set up with the name {args.section!r}"
        raise UsageError(problem, hint=hint)
    if args.section == "tts":
        cli.say("this version has no voice yet, so there is nothing to set up")
        return 0
    if args.section == "gateway":
        asked = ["--non-interactive"] if args.non_interactive else []
        return run_hermes(cli, "gateway", "setup", *asked)
    if args.reset and not _reset(args, cli):
        return 1
    applied = [section.apply(args, cli) for section in SECTIONS.values()]
    asks = not any(applied) and not args.non_interactive
    if any(applied) or (asks and cli.interactive):
        _write_soul(cli)
    if asks:
        _guide(args, cli)
    else:
        cli.say("\n".join(summary(cli)))
    return 0


def _write_soul(cli: Cli) -> None:
    """Write SOUL.md with the built-in identity, for the user to change. An existing one stays."""
    path = ensure_hermes_home(cli.home) / SOUL
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{DEFAULT_AGENT_IDENTITY}\n")
    except FileExistsError:
        return
    except OSError as error:
        raise unusable(path, error) from error
    cli.say(f"{tilde(path)} says who the agent is; change it as you like")


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
    record, paint = SetupRecord(cli.home), cli.paint
    done = () if only_one else record.done()
    if done:
        cli.say(f"Continuing where you stopped; done: {', '.join(done)}.")
    cli.say("Enter keeps the current value; Ctrl-C stops. Each answer is saved immediately.")
    for name in names:
        if name in done:
            continue
        cli.say(f"\n{paint('strong', SECTIONS[name].title)}")
        try:
            SECTIONS[name].ask(cli)
        except Interrupted:
            raise
        except HermesError as error:
            cli.say(paint("error", f"  {error}"))
            cli.say(f"  {error.hint}" if error.hint else f"  again: hermes setup {name}")
        else:
            if not only_one:
                record.add(name)
    if not only_one:
        record.clear()
    cli.say("\n".join(("", *summary(cli))))
    said = cli.ask("Try it: type a question (Enter to finish): ").strip()
    if said:
        run_hermes(cli, "chat", "-q", said)
    cli.say("To chat: hermes. To change these answers: hermes setup")


COMMAND = Command(
    "setup",
    run,
    "",
    arg("section", nargs="?", metavar="NAME", help="a section or an extra, listed below"),
    flag("--non-interactive", help="ask nothing"),
    flag("--reset", help="start over; the old config.yaml is kept"),
    arg("--provider", metavar="ID", help="provider of the model (openrouter, anthropic, local, …)"),
    arg("--model", metavar="NAME", help="the model; without it the provider's default"),
    arg("--base-url", metavar="URL", help="URL of your own endpoint"),
    OneOf(
        arg("--api-key-env", metavar="NAME", help="save the key of this variable"),
        flag("--api-key-stdin", help="read the key from stdin"),
    ),
    arg("--terminal-backend", choices=terminal_names(), help="where commands run"),
    arg("--toolsets", metavar="NAMES", help="toolsets and tools to use, separated by commas"),
    arg("--approvals", choices=APPROVAL_MODES, help="approval of dangerous commands"),
    arg("--max-turns", metavar="N", help="maximum model calls per turn"),
    epilog=EXTRAS_HELP,
)

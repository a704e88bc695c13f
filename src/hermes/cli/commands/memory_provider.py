"""`hermes memory setup`, `off` and `test`, and the provider in use with time limits."""

import json
import secrets
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from hermes.app import Extensions, start_logging
from hermes.cli.context import Cli, Command, arg, repeated
from hermes.cli.extensions import inspect_extensions
from hermes.cli.output import pick_named
from hermes.config import edit
from hermes.config.environment import export_variable
from hermes.config.home import ensure_hermes_home, tilde
from hermes.core.errors import ConfigError, HermesError, ToolError, UsageError
from hermes.memory import (
    ConfigField,
    Dicts,
    Inspectable,
    IsolatedProvider,
    config_fields,
    list_providers,
    load_provider,
)
from hermes.plugins import IsolationLimits, PluginInfo
from hermes.security import Redactor
from hermes.util.text import plain_line

PROVIDER_ACTIONS = Command("memory")
"""The actions of this module; `memory.py` adds them to the command."""
SECONDS = 20
SESSION = "hermes-memory"


class ProviderClient:
    """A loaded and initialized provider."""

    def __init__(self, isolated: IsolatedProvider) -> None:
        self._isolated = isolated
        self.name = isolated.name

        self._shows = isinstance(isolated.provider, Inspectable)  #: It can list its memories.

    def summary(self) -> str:
        said = self._ask("summary") if self._shows else "it does not say what it holds"
        return plain_line(said)

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        found: Dicts = self._ask("entries", query, limit) if self._shows else []
        return found

    def edit(self, entry_id: str, text: str) -> bool:
        return bool(self._shows and self._ask("edit", entry_id, text))

    def forget(self, entry_id: str) -> bool:
        return bool(self._shows and self._ask("forget", entry_id))

    def note_changed(self, action: str, target: str, content: str) -> None:
        """Pass on that a note was added or removed."""
        self._ask("on_memory_write", action, target, content)

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            return self._isolated.call(method, SECONDS, *args)
        except ToolError as error:
            raise HermesError(str(error), hint="`hermes memory test` tries it out") from error


def isolated_provider(cli: Cli, name: str, brought: Extensions | None = None) -> IsolatedProvider:
    """Load a provider. Raises `ConfigError`; details go to the log.

    `brought` is the result of `extensions_for_provider`, if the caller already has it.
    """
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    brought = brought or extensions_for_provider(cli, name)
    provider = load_provider(
        name,
        cli.home,
        loaded.variable,
        tuple(brought.memory_providers.values()) if brought else (),
        disabled=loaded.settings.plugins.disabled,
        tell=cli.note,
    )
    return IsolatedProvider(provider, IsolationLimits(start=SECONDS), lambda _line: None)


def available_providers(cli: Cli) -> tuple[PluginInfo, ...]:
    """Return the providers that can be set up. Loads the enabled plugins."""
    plugins = cli.load().settings.plugins
    brought = inspect_extensions(cli.load(), cli) if plugins.enabled else None
    registered = tuple(brought.memory_providers.values()) if brought else ()
    said = {tilde(cli.home.plugins / name) for name in plugins.enabled}  # already registered
    found = list_providers(cli.home, registered, plugins.disabled)
    return tuple(info for info in found if info.where not in said)


def provider_info(cli: Cli, name: str) -> PluginInfo | None:
    """Return what is known of a provider without loading plugins; None if a plugin registers it."""
    disabled = cli.load().settings.plugins.disabled
    found = list_providers(cli.home, disabled=disabled)
    return next((info for info in found if info.name == name), None)


def extensions_for_provider(cli: Cli, name: str) -> Extensions | None:
    """Load the enabled plugins if no folder has a provider of this name."""
    loaded = cli.load()
    needed = loaded.settings.plugins.enabled and provider_info(cli, name) is None
    return inspect_extensions(loaded, cli) if needed else None


@contextmanager
def open_provider(cli: Cli, user: str = "") -> Iterator[ProviderClient | None]:
    """Open the provider in use for a user ("" is the owner); None if there is none.

    Raises `ConfigError` if the provider cannot be used.
    """
    name = cli.load().settings.memory.provider
    if not name:
        yield None
        return
    isolated = isolated_provider(cli, name)
    try:
        if not isolated.call_at_start("is_available"):
            raise ConfigError(
                f"the memory provider {name} is not set up", hint=f"hermes memory setup {name}"
            )
        home = str(cli.home.root)
        isolated.call_at_start(
            "initialize", SESSION, hermes_home=home, platform="cli", user_id=user, tell=cli.note
        )
    except ToolError as error:
        raise ConfigError(str(error), hint="`hermes memory test` tries it out") from error
    try:
        yield ProviderClient(isolated)
    finally:
        isolated.shut_down()


# `hermes memory setup` and `hermes memory off`.

SETTING = ("memory", "provider")


@PROVIDER_ACTIONS.action(
    "setup",
    "choose a memory provider and configure it",
    arg("name", nargs="?", default="", metavar="NAME", help="which provider"),
    repeated("--set", metavar="KEY=VALUE", help="answer without being asked"),
)
def _setup(args: Namespace, cli: Cli) -> int:
    pairs = [pair.partition("=") for pair in args.set]
    for key, equals, _value in pairs:
        if not equals:
            raise UsageError(f"--set {key!r} has no =", hint="write --set KEY=VALUE")
    given = {key: value for key, _equals, value in pairs}
    name = args.name or _choose_provider(cli)
    isolated = isolated_provider(cli, name)
    fields = config_fields(isolated.provider)
    unknown = given.keys() - {field.key for field in fields}
    if unknown:
        known = ", ".join(field.key for field in fields) or "nothing"
        raise UsageError(f"{name} does not ask for {', '.join(sorted(unknown))}", hint=known)
    try:  # earlier answers, in the options file of the provider
        file = (cli.home.root / f"{name}.json").read_bytes()
        saved = msgspec.json.decode(file, type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        saved = {}
    answers = {}
    for field in fields:
        before = saved.get(field.key, "")
        before = before if isinstance(before, str) else json.dumps(before)
        answers[field.key] = _field_value(field, given, before, cli)
    ensure_hermes_home(cli.home)
    for field in fields:
        if field.secret and answers[field.key]:
            edit.set_variable(cli.home, field.env_var, answers[field.key])
            export_variable(field.env_var, answers[field.key])
            cli.say(f"{field.env_var} saved in {tilde(cli.home.env_file)}")
    plain = {field.key: answers[field.key] for field in fields if not field.secret}
    try:
        isolated.call("save_config", SECONDS, plain, str(cli.home.root))
        ready = bool(isolated.call("is_available", SECONDS))
    except ToolError as error:
        raise HermesError(str(error), hint="nothing was switched on") from error
    edit.set_value(cli.home, SETTING, name)
    cli.say(f"memory.provider set to {name} in {tilde(cli.home.config_file)}")
    if not ready:
        cli.note(f"warning: {name} says it is not ready yet; `hermes memory test` shows more")
        return 1
    return 0


@PROVIDER_ACTIONS.action("off", "use no memory provider; what it holds stays where it is")
def _off(_args: Namespace, cli: Cli) -> int:
    if edit.unset_value(cli.home, SETTING):
        cli.say("no memory provider is used any more; what it holds stays where it is")
        return 0
    cli.note("there is no memory provider in use")
    return 1


def _choose_provider(cli: Cli) -> str:
    first: dict[str, PluginInfo] = {}
    for info in available_providers(cli):
        first.setdefault(info.name, info)
    for info in first.values():
        if info.problem:
            cli.note(f"{info.name} is not used: {info.problem}")
    offers = [info for info in first.values() if not info.problem]
    names = [info.name for info in offers]
    if not cli.interactive:
        raise UsageError("which provider?", hint=f"hermes memory setup NAME: {', '.join(names)}")
    for number, info in enumerate(offers, start=1):
        cli.say(f"{number:>3}  {info.name:<14} {info.description}".rstrip())
    said = cli.ask("provider (number or name): ").strip()
    if not said:
        raise UsageError("no provider was chosen", hint="nothing was changed")
    return pick_named(said, names)


def _field_value(field: ConfigField, given: Mapping[str, str], saved: str, cli: Cli) -> str:
    """Return the given value, else the user's answer, else the saved value."""
    held = (cli.load().variable(field.env_var) or "") if field.env_var else ""
    fallback = held or saved or field.default
    if field.key in given:
        answer = given[field.key]
    else:
        said = _ask_user(field, fallback, cli) if cli.interactive else ""
        answer = said or ("" if field.secret and held else fallback)
    if field.choices and answer and answer not in field.choices:
        raise UsageError(
            f"{field.key} cannot be {answer!r}", hint=f"one of: {', '.join(field.choices)}"
        )
    if field.required and not (answer or held):
        place = f" ({field.url})" if field.url else ""
        hint = f"--set {field.key}=VALUE"
        raise UsageError(f"{field.key} is needed: {field.description}{place}", hint=hint)
    return answer


def _ask_user(field: ConfigField, fallback: str, cli: Cli) -> str:
    cli.say(f"{field.description or field.key}{f' ({field.url})' if field.url else ''}")
    if field.secret:
        kept = ", empty keeps it" if fallback else ""
        return cli.ask_secret(f"  {field.key} (it is not shown{kept}): ").strip()
    choices = f" [{'|'.join(field.choices)}]" if field.choices else ""
    default = f" ({fallback})" if fallback else ""
    return cli.ask(f"  {field.key}{choices}{default}: ").strip()


# `hermes memory test`: try each function of the provider.

QUESTION = "What is the test word of hermes memory?"
USER = "hermes-memory-test"  #: A separate user, so that the test does not touch real memories.


@PROVIDER_ACTIONS.action(
    "test",
    "try the provider out, step by step, with time limits",
    arg("name", nargs="?", default="", metavar="NAME", help="default: the current model"),
)
def _test(args: Namespace, cli: Cli) -> int:
    name = args.name or cli.load().settings.memory.provider
    if not name:
        raise UsageError("there is no memory provider", hint="hermes memory setup NAME")
    try:
        isolated = _step(cli, "load", lambda: isolated_provider(cli, name))
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

    def tools() -> str:
        schemas: Dicts = isolated.call("get_tool_schemas", SECONDS)
        return ", ".join(schema["name"] for schema in schemas) or "none"

    def recall() -> str:
        text: str = isolated.call("prefetch", SECONDS, QUESTION)
        if word in text:
            return "the word came back"
        return "the word did not come back at once; many services need a while"

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
        _step(cli, "tools", tools)
        _step(cli, "save a turn", lambda: isolated.call("sync_turn", SECONDS, said, "Noted."))
        _step(cli, "recall", recall)
        try:
            _step(cli, "users apart", lambda: _check_separation(cli, isolated.name, word))
        finally:
            _step(cli, "clean up", lambda: _clean(isolated, word))
    finally:
        isolated.shut_down()


def _check_separation(cli: Cli, name: str, word: str) -> str:
    """Check that the owner is not told what the user of the test said. Raises `HermesError`."""
    owner = isolated_provider(cli, name)
    try:
        owner.call_at_start(
            "initialize", SESSION, hermes_home=str(cli.home.root), platform="cli", user_id=""
        )
        text: str = owner.call("prefetch", SECONDS, QUESTION)
    finally:
        owner.shut_down()
    if word in text:
        raise HermesError(
            f"it does not keep users apart: you are told the test word {word} too",
            hint="use it for one person only, and delete the test word where it keeps its data",
        )
    return ""


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


def _clean(isolated: IsolatedProvider, word: str) -> str:
    """Delete the test memories, if the provider supports it."""
    if not isinstance(isolated.provider, Inspectable):
        return f"left as it is, below the user {USER}"
    found: Dicts = isolated.call("entries", SECONDS, word, 10)
    mine = [each["id"] for each in found if word in each["text"]]
    for entry_id in mine:
        isolated.call("forget", SECONDS, entry_id)
    return "the word is deleted" if mine else "nothing to delete"

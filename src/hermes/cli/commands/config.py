"""`hermes config`: show and change settings, and explain where each comes from."""

import shlex
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from hermes.cli.commands.model import resolution_lines
from hermes.cli.context import Cli, Command, arg, flag
from hermes.config import edit, environment, policy
from hermes.config.edit import assign, editor_command, variable_named
from hermes.config.environment import (
    SHORTEST_SECRET,
    Parts,
    is_secret_variable,
    is_short_secret,
    mask,
    mask_settings,
)
from hermes.config.home import Home, ensure_hermes_home, tilde, unusable
from hermes.config.loader import Loaded, Origin, describe, examine, is_known_variable, key_of, load
from hermes.config.own_files import REJECTED, write_own
from hermes.config.reference import meaning
from hermes.config.schema import (
    MISSING,
    Problem,
    complete_settings,
    find,
    leaf_keys,
    locate,
    split_key,
)
from hermes.config.schema import describe as describe_type
from hermes.core.errors import ConfigError, UsageError
from hermes.util.text import plain, plain_line

if TYPE_CHECKING:
    from hermes.cli.commands.skills import DeclaredSetting


RESOLVED = ("model.provider", "model.default", "model.base_url", "model.api_key")
"""Settings that choose the model only together, and with the keys."""

SECRET_FILES = (".env", "auth.json", "webhook_subscriptions.json", "key")

EMPTY = "# Settings of Hermes. `hermes config show` lists them with their defaults.\n"


COMMAND = Command("config")


@COMMAND.action(
    "show",
    "show all settings in force, secrets masked",
    flag("--changed", help="only what differs from the default"),
    json=True,
)
def _show(args: Namespace, cli: Cli) -> None:
    loaded = cli.load().complete()
    shown = mask_settings(loaded.settings, loaded.secrets())
    if args.changed:
        shown = _changed_part(shown, mask_settings(complete_settings()()))
    saved = {
        name: mask(value) if is_secret_variable(name) else value
        for name, value in loaded.saved.items()
    }
    if args.json:
        cli.json({"home": str(cli.home.root), "settings": shown, "variables": saved})
        return
    cli.say(f"# {tilde(cli.home.config_file)} (profile {cli.home.profile})")
    cli.show(_yaml(shown) if shown else "# every setting has its default")
    if saved:
        lines = (f"# {name}={value}" for name, value in saved.items())
        cli.say("\n".join((f"\n# {tilde(cli.home.env_file)}", *lines)))
    declared = [one for one in _skill_settings(cli) if one.is_set or not args.changed]
    if declared:
        cli.say("\n# Skill Settings (hermes skills config)")
    for one in declared:
        value = "(not set)" if one.value is None else one.value
        cli.say(f"# skills.config.{one.key}: {value}   {one.skill}: {one.description}")
    for warning in loaded.warnings:
        cli.note(f"warning: {warning}")


def _skill_settings(cli: Cli) -> "list[DeclaredSetting]":
    from hermes.cli.commands.skills import declared_settings  # reads every skill

    return declared_settings(cli)


@COMMAND.action(
    "get",
    "show one setting, block or variable",
    arg("key", help="for example terminal.timeout"),
    flag("--reveal", help="show a secret as it is"),
    json=True,
)
def _get(args: Namespace, cli: Cli) -> None:
    loaded = cli.load().complete()
    variable = variable_named(args.key)
    if variable:
        value = loaded.variable(variable)
        if value is None:
            raise UsageError(f"{variable} is not set", hint=f"`hermes config set {variable} VALUE`")
        secret = is_secret_variable(variable) and not args.reveal
        shown: Any = mask(value) if secret else value
    else:
        value = loaded.value(args.key)
        shown = msgspec.to_builtins(value)
        if not args.reveal:
            shown = mask_settings(value, loaded.secrets(), split_key(args.key))
    text = _yaml(shown) if isinstance(shown, dict | list) else _format_inline(shown)
    cli.emit(shown, shown if isinstance(shown, str) else text)


@COMMAND.action(
    "set",
    "set a key of config.yaml, or a variable of .env",
    arg("key", help="terminal.timeout, or a variable such as OPENAI_API_KEY"),
    arg("value", help="the value, as YAML"),
    flag("--force", help="also a key that is not known"),
)
def _set(args: Namespace, cli: Cli) -> None:
    change = assign(args.key, args.value, force=args.force)
    if change.variable:
        edit.set_variable(cli.home, change.variable, change.value)
        cli.say(f"{change.variable} saved in {tilde(cli.home.env_file)}")
        _warn_about_short_secret(cli, (change.variable,), change.value)
        key = key_of(change.variable)
        if not key and not is_known_variable(change.variable):
            cli.note(f"note: Hermes itself does not use {change.variable}")
        with suppress(ConfigError):  # other errors are reported by other commands
            if key and examine(cli.home).origin(key).kind == "config":
                unset = f"`hermes config unset {key}`"
                cli.note(f"note: config.yaml sets {key}, and that counts; {unset}")
        if key:
            confirm_change(cli, split_key(key))
        return
    edit.set_value(cli.home, change.parts, change.value)
    cli.say(f"{args.key} set in {tilde(cli.home.config_file)}")
    _warn_about_short_secret(cli, change.parts, change.value)
    confirm_change(cli, change.parts)


def _warn_about_short_secret(cli: Cli, parts: Parts, value: object) -> None:
    if isinstance(value, str) and is_short_secret(parts, value):
        least = f"fewer than {SHORTEST_SECRET} characters"
        cli.note(f"note: a secret with {least} is not removed from answers, logs and tool results")


def confirm_change(cli: Cli, parts: Parts) -> None:
    """Confirm the policy in a setting that a person changed at a terminal; else say what to do."""
    with suppress(ConfigError):  # other errors are reported by other commands
        values = _unconfirmed_part(load(cli.home), parts)
        if values and cli.interactive:
            policy.confirm(cli.home.root, values)
        elif values:
            cli.note(f"note: {policy.describe(values)}")


def _unconfirmed_part(loaded: Loaded, parts: Parts) -> dict[str, Any]:
    """Return the weaker values that a change of one key brought, and not others in the file."""
    found: dict[str, Any] = {}
    for key, wanted in loaded.unconfirmed.items():
        whole, held = split_key(key), loaded.policy[key]
        if whole[: len(parts)] == parts or (isinstance(wanted, tuple) and parts[:1] == whole[:1]):
            found[key] = wanted
        elif parts[: len(whole)] == whole and wanted.get(name := parts[len(whole)]) != held.get(
            name
        ):
            others = {each: rule for each, rule in held.items() if each != name}
            found[key] = others | ({name: wanted[name]} if name in wanted else {})
    return found


@COMMAND.action("unset", "go back to the default", arg("key"))
def _unset(args: Namespace, cli: Cli) -> int:
    variable = variable_named(args.key)
    if variable:
        parts, file = split_key(key_of(variable) or variable), cli.home.env_file
        removed = edit.unset_variable(cli.home, variable)
    else:
        place = locate(split_key(args.key))
        parts, file = place.parts if place else split_key(args.key), cli.home.config_file
        removed = edit.unset_value(cli.home, parts)
    if not removed:
        cli.note(f"{variable or args.key} is not set in {tilde(file)}")
        return 1
    cli.say(f"{variable or args.key} removed from {tilde(file)}")
    confirm_change(cli, parts)
    return 0


@COMMAND.action("edit", "open config.yaml in your editor, and check it afterwards")
def _edit(_: Namespace, cli: Cli) -> int:
    path, command = cli.home.config_file, editor_command(terminal=cli.interactive)
    ensure_hermes_home(cli.home)
    try:
        code = _run_editor(cli.home, command)
    except OSError as error:
        raise unusable(path, error) from error
    if code:
        cli.note(f"the editor ended with code {code}")
    try:
        problems = examine(cli.home).problems
    except ConfigError as error:
        cli.note(f"your text is kept, but it cannot be used: {error}")
        return error.exit_code
    for problem in problems:
        cli.note(f"{problem.severity}: {describe(problem)}")
    if any(problem.severity == "error" for problem in problems):
        cli.note("your text is kept; `hermes config edit` opens it again")
        return ConfigError.exit_code
    cli.say(f"{tilde(path)} is fine" if not problems else f"{tilde(path)} can be used")
    if cli.interactive:
        ask_confirmation(cli)
    return 1 if code else 0


def _run_editor(home: Home, command: list[str]) -> int:
    """Edit a copy and take it over: a running agent would undo what another program writes."""
    path = home.config_file
    before = path.read_bytes() if path.exists() else EMPTY.encode()
    with tempfile.TemporaryDirectory(prefix=".edit-", dir=home.root) as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(before)
        code = subprocess.run([*command, str(copy)], check=False).returncode
        if not path.exists() or copy.read_bytes() != before:
            write_own(home.root, path, copy.read_bytes())
    return code


@COMMAND.action(
    "accept",
    "take over a version of a file that Hermes rejected because another program wrote it",
    arg("copy", metavar="FILE", help="its path in the folder `rejected`"),
)
def _accept(args: Namespace, cli: Cli) -> None:
    root, copy = cli.home.root, Path(args.copy).expanduser().absolute()
    try:
        name = Path(*copy.relative_to(root / REJECTED).parts[1:])
        data = copy.read_bytes()
    except (ValueError, OSError) as error:
        hint = f"the rejected versions are in {tilde(root / REJECTED)}"
        raise UsageError(f"{args.copy} is not a rejected version of a file", hint=hint) from error
    target = root / name
    for line in _difference(target, data):
        cli.say(plain(line))
    cli.require(f"Replace {tilde(target)} by this version?")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_own(root, target, data, mode=None if target.exists() else 0o600)
    except OSError as error:
        raise unusable(target, error) from error
    cli.say(f"{tilde(target)} was replaced")
    ask_confirmation(cli)


def _difference(target: Path, data: bytes) -> Iterable[str]:
    if target.name in SECRET_FILES:
        return (f"{len(data)} bytes; the content is not shown, because it holds secrets",)
    before = target.read_text("utf-8", "replace") if target.exists() else ""
    after = data.decode("utf-8", "replace")
    return unified_diff(before.splitlines(), after.splitlines(), "now", "rejected", lineterm="")


def ask_confirmation(cli: Cli) -> bool:
    """Show the weaker values of the policy and ask whether they may take effect.

    Returns False if there are none. Raises `UsageError` without a terminal.
    """
    loaded, root = load(cli.home), cli.home.root
    hooks = _unconfirmed_hooks(cli)
    if not loaded.unconfirmed and not hooks:
        return False
    for key, value in loaded.unconfirmed.items():
        held, wanted = _format_inline(loaded.policy[key]), _format_inline(value)
        cli.say(plain_line(f"{key}: {wanted} instead of {held}"))
    for hook in hooks:
        cli.say(plain_line(f"shell hook at {hook}"))
    cli.require("Let this policy take effect?", "the confirmed policy stays in effect")
    policy.confirm(root, loaded.unconfirmed)
    for hook in hooks:
        policy.confirm_entry(root, policy.HOOKS, hook)
    cli.say("the policy is confirmed; new sessions use it")
    return True


def _unconfirmed_hooks(cli: Cli) -> list[str]:
    from hermes.plugins import HookApprovals  # only where a policy is confirmed

    names = [approval.name for approval in HookApprovals(cli.home.root).all()]
    return [name for name in names if not policy.is_confirmed_hook(cli.home.root, name)]


COMMAND.action("path", "print where config.yaml is")(
    lambda _args, cli: cli.say(str(cli.home.config_file))
)
COMMAND.action("env-path", "print where .env is")(
    lambda _args, cli: cli.say(str(cli.home.env_file))
)


@COMMAND.action("check", "look for mistakes; exit code 1 when there are any", json=True)
def _check(_args: Namespace, cli: Cli) -> int:
    try:
        problems = list(examine(cli.home).problems)
    except ConfigError as error:
        message = str(error).removeprefix(f"{error.where}: ")
        problems = [Problem((), message, "error", error.where)]
    env_file = cli.home.env_file
    if env_file.is_file() and env_file.stat().st_mode & 0o077:
        message = f"others can read your keys; `chmod 600 {shlex.quote(str(env_file))}`"
        problems.append(Problem((), message, "warning", tilde(env_file)))
    found = [
        {"severity": p.severity, "key": p.key, "message": p.message, "where": p.where}
        for p in problems
    ]
    lines = [f"{problem.severity}: {describe(problem)}" for problem in problems]
    no_problem = [f"no mistakes found in {cli.home.display()}"]
    cli.emit({"ok": not problems, "problems": found}, lines or no_problem)
    return 1 if problems else 0


@COMMAND.action("migrate", "rewrite older forms of settings, keeping a backup")
def _migrate(_: Namespace, cli: Cli) -> None:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = cli.home.config_file.with_name(f"config.yaml.{stamp}.bak")
    done = edit.migrate(cli.home, backup)
    for text in done:
        cli.say(text)
    kept = f"the old file is kept as {tilde(backup)}"
    cli.say(kept if done else "nothing to do: there are no older forms in config.yaml")
    unset = {one.key: one for one in _skill_settings(cli) if not one.is_set}
    for one in unset.values():
        if cli.interactive:
            _ask_value(one, cli)
        else:
            default = "" if one.value is None else f"; the default is {one.value}"
            text = f"skills.config.{one.key} ({one.skill}: {one.description}{default})"
            cli.say(f"not set: {plain_line(text)}")


def _ask_value(one: Any, cli: Cli) -> None:
    question = plain_line(f"{one.skill}: {one.prompt or one.description}")
    default = "Enter skips it" if one.value is None else plain_line(str(one.value))
    answer = cli.ask(f"{question} [{default}] ").strip()
    if not answer and one.value is None:
        return
    key = f"skills.config.{one.key}"
    parts, value = (split_key(key), one.value) if not answer else assign(key, answer)[1:]
    edit.set_value(cli.home, parts, value)
    cli.say(f"{plain_line(key)} set in {tilde(cli.home.config_file)}")


@COMMAND.action("explain", "say where a value comes from and what it means", arg("key"), json=True)
async def _explain(args: Namespace, cli: Cli) -> None:
    loaded = cli.load().complete()
    variable = variable_named(args.key)
    if variable:
        _explain_variable(variable, loaded, cli)
        return
    keys = [key for key in leaf_keys() if key.startswith(f"{args.key}.") and "<" not in key]
    if keys and find(complete_settings()(), split_key(args.key)) is not MISSING:
        origins = {key: _mask_secret(loaded.origin(key), key, loaded) for key in keys}
        shown = (f"{k} = {_format_inline(o.value)}  ({o.where})" for k, o in origins.items())
        cli.emit(origins, shown)
        return
    origin = _mask_secret(loaded.origin(args.key), args.key, loaded)
    place = locate(split_key(args.key))
    means = meaning(split_key(args.key))
    takes = describe_type(place.type) if place else "any value (this key is not known)"
    facts = {"key": args.key, **msgspec.to_builtins(origin), "meaning": means, "type": takes}
    lines = [f"{args.key} = {_format_inline(origin.value)}", f"  from       {origin.where}"]
    lines += [f"  instead of {_format_inline(o.value)} from {o.where}" for o in origin.overrode]
    lines += [f"  meaning    {means}"] if means else []
    lines.append(f"  takes      {takes}")
    if args.key in RESOLVED:
        from hermes.cli.commands.model import resolve_main_model  # loads the providers

        facts["comes_to"] = resolved = await resolve_main_model(cli)
        lines.append("what answers with these settings:")
        lines += [f"  {line}" for line in resolution_lines(resolved, cli.paint)]
    cli.emit(facts, lines)


def _explain_variable(name: str, loaded: Loaded, cli: Cli) -> None:
    saved, given = loaded.saved.get(name), environment.variable(name)
    hide = mask if is_secret_variable(name) else str
    places = [(tilde(cli.home.env_file), saved), ("the environment", given)]
    found = [{"value": hide(value), "where": where} for where, value in places if value]
    key = key_of(name)
    lines = [f"{name} = {found[0]['value']}" if found else f"{name} is not set"]
    for at, place in enumerate(found):
        lines.append(f"  {'instead of' if at else 'from      '} {place['where']}")
    lines += [f"  sets       {key} (where config.yaml does not)"] if key else []
    cli.emit({"variable": name, "found": found, "sets": key}, lines)


def _mask_secret(origin: Origin, key: str, loaded: Loaded) -> Origin:
    hidden = mask_settings(origin.value, loaded.secrets(), split_key(key))
    lower = tuple(_mask_secret(below, key, loaded) for below in origin.overrode)
    return Origin(hidden, origin.kind, origin.where, lower)


def _changed_part(value: Any, default: Any) -> Any:
    """Return the part of `value` that differs from `default`."""
    if not isinstance(value, dict) or not isinstance(default, dict):
        return value
    return {
        key: _changed_part(held, default.get(key))
        for key, held in value.items()
        if held != default.get(key)
    }


def _format_inline(value: Any) -> str:
    """Return a value on one line."""
    if value is None:
        return "unset"
    return msgspec.json.encode(_without_trailing_zeros(value)).decode()


def _yaml(value: Any) -> str:
    value = _without_trailing_zeros(value)
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=4096)
    return text.rstrip()


def _without_trailing_zeros(value: Any) -> Any:
    """Write whole numbers without `.0`."""
    if isinstance(value, dict):
        return {key: _without_trailing_zeros(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_without_trailing_zeros(held) for held in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

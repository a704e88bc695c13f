"""`hermes plugins`: list, install, remove, enable, disable, write and test plugins."""

import asyncio
import shlex
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from hermes.cli.context import YES, Cli, Command, OneOf, arg, flag, table
from hermes.cli.extensions import inspect_extensions
from hermes.config.environment import child_environment, variables
from hermes.config.home import Home, tilde
from hermes.config.installation import start_command
from hermes.config.loader import Loaded, load
from hermes.context import bundled_engines
from hermes.core.errors import HermesError, UsageError
from hermes.memory import list_providers
from hermes.plugins import (
    Plugin,
    PluginFailed,
    PluginFetcher,
    PluginInstaller,
    PluginKind,
    PluginManifest,
    PluginOrigin,
    PluginSelection,
    PluginState,
    StartHistory,
    bundled_infos,
    choose_provider,
    create_plugin,
    default_places,
    find_plugins,
    forget_plugin,
    is_plugin,
    parse_source,
    read_manifest,
    set_enabled,
)
from hermes.plugins.discovery import BUILT_IN
from hermes.util.processes import run_program
from hermes.util.text import plain_line

# The plugins of a profile with their state, including bundled providers.


class PluginRow(msgspec.Struct, frozen=True):
    name: str
    kind: PluginKind
    state: PluginState
    origin: str
    version: str = ""
    description: str = ""
    folder: str = ""
    problem: str = ""
    missing: tuple[str, ...] = ()  #: Required variables that are not set.
    tools: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


def installed_plugins(home: Home, loaded: Loaded | None = None) -> tuple[Plugin, ...]:
    settings = (loaded or load(home)).settings.plugins
    working_folder = Path.cwd() if settings.project else None
    return find_plugins(default_places(home.plugins, working_folder))


def plugin_rows(cli: Cli) -> list[PluginRow]:
    """Return all plugins by kind and name. Reads the settings again."""
    home, loaded = cli.home, load(cli.home)
    settings = loaded.settings
    single = {
        PluginKind.MEMORY: settings.memory.provider,
        PluginKind.ENGINE: settings.context.engine,
    }
    choice = PluginSelection(settings.plugins.enabled, settings.plugins.disabled, single)
    rows = [
        _row(plugin, choice.state(plugin), loaded) for plugin in installed_plugins(home, loaded)
    ]
    known = {(row.kind, row.name) for row in rows}
    bundled = {PluginKind.MEMORY: bundled_infos("memory"), PluginKind.ENGINE: bundled_engines()}
    for kind, info in ((kind, info) for kind, infos in bundled.items() for info in infos):
        state = PluginState.ENABLED if single[kind] == info.name else PluginState.NOT_ENABLED
        if (kind, info.name) not in known:
            rows.append(PluginRow(info.name, kind, state, BUILT_IN, description=info.description))
    known = {(row.kind, row.name) for row in rows}
    rows += [
        _provided_row(kind, name, loaded, cli)
        for kind, name in single.items()
        if name and (kind, name) not in known
    ]
    order = list(PluginKind)
    return sorted(rows, key=lambda row: (order.index(row.kind), row.name))


def _provided_row(kind: PluginKind, name: str, loaded: Loaded, cli: Cli) -> PluginRow:
    """Return the row of a provider that has no folder: an enabled plugin must register it."""

    def has_a_folder(disabled: tuple[str, ...] = ()) -> bool:
        found = list_providers(cli.home, disabled=disabled) if kind is PluginKind.MEMORY else ()
        return any(info.name == name for info in found)

    plugin = name if has_a_folder(loaded.settings.plugins.disabled) else ""
    if not plugin and loaded.settings.plugins.enabled:
        plugin = inspect_extensions(loaded, cli).plugin_with(kind, name)
    if plugin:
        return PluginRow(name, kind, PluginState.ENABLED, f"plugin {plugin}")
    problem = "its plugin is disabled" if has_a_folder() else f"there is no such {kind}"
    return PluginRow(name, kind, PluginState.ENABLED, "not found", problem=problem)


def _row(plugin: Plugin, state: PluginState, loaded: Loaded) -> PluginRow:
    manifest = plugin.manifest
    missing = tuple(v.name for v in manifest.requires_env if not loaded.variable(v.name))
    return PluginRow(
        manifest.name,
        plugin.kind,
        state,
        str(plugin.origin),
        manifest.version,
        manifest.description,
        tilde(plugin.folder) if plugin.folder else "",
        plugin.problem,
        missing,
        manifest.provides_tools,
        manifest.provides_hooks,
    )


def find_row(cli: Cli, name: str) -> PluginRow:
    """Find a row by name; a plugin precedes a provider. Raises `UsageError`."""
    rows = plugin_rows(cli)
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        known = ", ".join(row.name for row in rows if row.kind is PluginKind.PLUGIN) or "none"
        hint = f"plugins here: {known}; `hermes plugins install` adds one"
        raise UsageError(f"there is no plugin {name!r}", hint=hint)
    return found


# The numbered menu of `hermes plugins`.

HEADINGS = {
    PluginKind.PLUGIN: "Plugins",
    PluginKind.MEMORY: "Memory provider (one at most)",
    PluginKind.ENGINE: "Context engine (one)",
}
MARKS = {PluginState.ENABLED: "✓", PluginState.DISABLED: "✗", PluginState.NOT_ENABLED: "·"}


def plugin_line(row: PluginRow, width: int) -> str:
    """Return the line of a plugin."""
    facts = [row.state if row.kind is PluginKind.PLUGIN else "", row.origin]
    if row.problem:
        facts.append(row.problem)
    elif row.missing:
        facts.append(f"needs {', '.join(row.missing)}")
    named = f"{row.name} {row.version}".rstrip()
    about = f"  {row.description}" if row.description else ""
    return f"{MARKS[row.state]} {named:<{width}}  ({', '.join(filter(None, facts))}){about}"


def name_width(rows: Sequence[PluginRow]) -> int:
    return max((len(f"{row.name} {row.version}".rstrip()) for row in rows), default=0)


def _show(cli: Cli, rows: Sequence[PluginRow]) -> None:
    width = name_width(rows)
    for kind, heading in HEADINGS.items():
        cli.say(heading)
        numbered = [(at, row) for at, row in enumerate(rows, 1) if row.kind is kind]
        for number, row in numbered:
            cli.say(f"{number:>4}  {plugin_line(row, width)}")
        if not numbered:
            cli.say("      none yet: `hermes plugins install owner/repo`")


WARNING = "A plugin is a program: once enabled, it runs with all your rights."


def _menu(args: Namespace, cli: Cli) -> None:
    """Show the menu until the user enters an empty line."""
    if not cli.interactive:
        cli.say(args.selected_parser.format_help().rstrip())
        return
    while True:
        rows = plugin_rows(cli)
        _show(cli, rows)
        said = cli.ask("number to switch on or off (empty to leave): ").strip()
        if not said:
            return
        if not said.isdecimal() or not 1 <= int(said) <= len(rows):
            cli.say(f"{said!r} is not in the list")
            continue
        row = rows[int(said) - 1]
        try:
            _set(cli, row, on=row.state is not PluginState.ENABLED)
        except HermesError as error:
            cli.say(f"{error}{f' ({error.hint})' if error.hint else ''}")


COMMAND = Command("plugins", _menu, "Look at plugins, add and remove them, switch them on and off.")
NAME = arg("name", metavar="NAME", help="as `hermes plugins list` shows it")


@COMMAND.action("list", "show every plugin and its state", json=True, aliases=("ls",))
def _list(_args: Namespace, cli: Cli) -> None:
    rows = plugin_rows(cli)
    plugins = [row for row in rows if row.kind is PluginKind.PLUGIN]
    lines = [plugin_line(row, name_width(plugins)) for row in plugins]
    lines = lines or [f"no plugins yet in {tilde(cli.home.plugins)}"]
    for row in rows:
        if row.kind is not PluginKind.PLUGIN and row.state is PluginState.ENABLED:
            lines.append(f"{row.kind}: {row.name} ({row.problem or row.origin})")
    cli.emit(rows, lines)


@COMMAND.action(
    "install",
    "add a plugin",
    arg("id", metavar="ID", help="owner/repo (GitHub), a git URL, or a folder"),
    flag("--force", help="replace one of the same name"),
    OneOf(
        flag("--enable", help="enable it without asking"),
        flag("--no-enable", help="do not enable it, do not ask"),
    ),
    epilog=WARNING,
)
def _install(args: Namespace, cli: Cli) -> None:
    source = parse_source(args.id)
    head, at, tail = source.address.rpartition("@")
    scheme, slashes, _ = head.partition("://")
    shown = f"{scheme}://…@{tail}" if at and slashes else source.address  # without its password
    cli.note(f"fetching {shown}")
    manifest = _plugin_installer(cli).install(source, force=args.force)
    cli.say(f"installed {manifest.name} {manifest.version}".rstrip())
    _describe(cli, manifest)
    asks = cli.interactive and not args.no_enable
    if args.enable or (asks and cli.confirm(f"Enable {manifest.name}?")):
        _set(cli, find_row(cli, manifest.name), on=True)
    else:
        cli.say(f"`hermes plugins enable {manifest.name}` enables it")


def _describe(cli: Cli, manifest: PluginManifest) -> None:
    if manifest.description:
        cli.say(f"  {manifest.description}")
    for what, names in (
        ("tools", manifest.provides_tools),
        ("hooks", manifest.provides_hooks),
        ("needs", tuple(variable.name for variable in manifest.requires_env)),
        ("author", (manifest.author,) if manifest.author else ()),
    ):
        if names:
            cli.say(f"  {what}: {', '.join(names)}")
    cli.say(f"  {WARNING}")


@COMMAND.action(
    "update",
    "fetch the newest version",
    arg("name", nargs="?", default="", metavar="NAME", help="only this one"),
)
def _update(args: Namespace, cli: Cli) -> int:
    workshop = _plugin_installer(cli)
    names = [_folder_name(cli, args.name)] if args.name else workshop.updatable()
    if not names:
        cli.say("there is nothing to update")
    failed = 0
    for name in names:
        try:
            change = workshop.update(name)
        except HermesError as error:
            if args.name:
                raise
            failed += 1
            cli.note(f"{name}: {error}")
            continue
        same = change.before == change.after
        cli.say(f"{name}: {'up to date' if same else f'{change.before} → {change.after}'}")
    return 1 if failed else 0


@COMMAND.action("remove", "delete a plugin", YES, NAME, aliases=("rm", "uninstall"))
def _remove(args: Namespace, cli: Cli) -> None:
    row = find_row(cli, args.name)
    if row.origin != PluginOrigin.USER or row.kind is not PluginKind.PLUGIN:
        raise UsageError(
            f"{args.name} is not one that `hermes plugins` can remove ({row.origin})",
            hint=f"`hermes plugins disable {args.name}` keeps it from being loaded",
        )
    cli.require(f"Delete {row.folder} with everything in it?", "")
    folder = _folder_name(cli, args.name)
    _plugin_installer(cli).remove(folder)
    for name in {args.name, folder}:  # settings may use either name
        forget_plugin(cli.home, name)
    cli.say(f"removed {args.name}")


@COMMAND.action(
    "new",
    "write a plugin that works, to start from",
    arg("name", metavar="NAME", help="what it is called"),
    arg("--folder", type=Path, metavar="DIR", help="where (plugins of the home)"),
)
def _new(args: Namespace, cli: Cli) -> None:
    folder = (args.folder or cli.home.plugins) / args.name
    create_plugin(folder, args.name)
    shown = args.name if args.folder is None else shlex.quote(str(folder))
    step = f"enable {shown}" if args.folder is None else f"install {shown} --enable"
    cli.say(f"created {tilde(folder)}")
    cli.say(f"to test it: hermes plugins test {shown}; to use it: hermes plugins {step}")


TEST_SECONDS = 600.0  #: Time limit for loading a plugin and running its tests.


@COMMAND.action(
    "test",
    "load a plugin in a process of its own, and run its tests",
    arg("plugin", nargs="?", default=".", metavar="PLUGIN", help="a name or a folder (this one)"),
    flag("--report", help=SUPPRESS),  # for the process that loads the plugin
    json=True,
)
def _test(args: Namespace, cli: Cli) -> int:
    # Loads the services of a session, which no other command here needs.
    from hermes.sdk.testing.plugin import PluginReport, examine_plugin

    folder = _plugin_folder(cli, args.plugin)
    if args.report:
        with redirect_stdout(cli.stderr):  # what the plugin prints is not part of the report
            report = examine_plugin(folder, variables())
        cli.say(msgspec.json.encode(report).decode())
        return 0
    needed = [each.name for each in read_manifest(folder).requires_env]
    with TemporaryDirectory(prefix="hermes-plugin-") as home:
        environment = child_environment(needed, cli.load().saved) | {"HERMES_HOME": home}
        command = (*start_command(), "plugins", "test", "--report", str(folder))
        try:
            done = asyncio.run(run_program(*command, seconds=TEST_SECONDS, env=environment))
        except TimeoutError:
            raise PluginFailed(f"it did not end within {TEST_SECONDS:g} seconds") from None
    try:
        report = msgspec.json.decode(done.output, type=PluginReport)
    except msgspec.DecodeError:  # the plugin ended the process
        last = plain_line(" ".join(done.errors.split())[-500:])
        report = PluginReport([], [f"it ended the process (exit code {done.code}): {last}"], [])
    rows = [(kind, name, about) for kind, name, about in report.registered]
    cli.emit(report, table(rows) if rows else [])
    ran = f"its tests passed ({report.tests})" if report.tests else "it has no tests"
    calls = f"; called {', '.join(report.called)}" if report.called else ""
    if report.tests and report.problems:
        cli.note(done.errors.rstrip())
    for problem in report.problems:
        cli.note(f"✗ {problem}")
    if not report.problems and not args.json:
        cli.say(f"✓ {folder.name} works: {ran}{calls}")
    return 1 if report.problems else 0


def _plugin_folder(cli: Cli, said: str) -> Path:
    """Return the folder of a plugin, by its path or its name. Raises `UsageError`."""
    folder = Path(said).expanduser().resolve()
    if is_plugin(folder):
        return folder
    found = [each for each in installed_plugins(cli.home) if each.is_among((said,))]
    if not found or found[-1].folder is None:
        raise UsageError(
            f"{said} is neither a folder with a plugin nor the name of one",
            hint="`hermes plugins list` shows the names; `hermes plugins new NAME` writes one",
        )
    return found[-1].folder


@COMMAND.action("enable", "load a plugin from now on", NAME, epilog=WARNING)
def _enable(args: Namespace, cli: Cli) -> None:
    _set(cli, find_row(cli, args.name), on=True)


@COMMAND.action("disable", "never load a plugin", NAME)
def _disable(args: Namespace, cli: Cli) -> None:
    settings = cli.load().settings.plugins
    if args.name in settings.enabled:  # also a plugin that is no longer installed
        set_enabled(cli.home, args.name, on=False)
        cli.say(f"{args.name} is disabled")
        return
    _set(cli, find_row(cli, args.name), on=False)


def _set(cli: Cli, row: PluginRow, *, on: bool) -> None:
    if row.kind is not PluginKind.PLUGIN:
        _choose(cli, row, on=on)
        return
    if on and row.problem:
        raise UsageError(f"{row.name} cannot be loaded: {row.problem}")
    if on:
        _ask_variables(cli, row)
        history = StartHistory.read(cli.home.cache)
        history.hangs.pop(row.name, None)  # the user wants another attempt
        history.write(cli.home.cache)
    set_enabled(cli.home, row.name, on=on)
    state = "enabled; it is loaded when Hermes starts" if on else "disabled"
    cli.say(f"{row.name} is {state}")


def _choose(cli: Cli, row: PluginRow, *, on: bool) -> None:
    if on == (row.state is PluginState.ENABLED):
        cli.say(f"{row.kind}: {row.name} is {'in use' if on else 'not in use'} already")
        return
    choose_provider(cli.home, row.kind, row.name if on else "")
    now = next(
        (r.name for r in plugin_rows(cli) if r.kind is row.kind and r.state is PluginState.ENABLED),
        "none",
    )
    cli.say(f"{row.kind}: {now}")


def _ask_variables(cli: Cli, row: PluginRow) -> None:
    """Ask for missing variables; without a terminal, print how to set them."""
    found = next((each for each in installed_plugins(cli.home) if each.name == row.name), None)
    for variable in found.manifest.requires_env if found else ():
        if variable.name not in row.missing:
            continue
        value = ""
        if cli.interactive:
            for text in filter(None, (variable.description, variable.url)):
                cli.say(f"  {text}")
            ask, how = (cli.ask_secret, "it is not shown, ") if variable.secret else (cli.ask, "")
            value = ask(f"{variable.name} ({how}empty skips): ").strip()
        if value:
            from hermes.config import edit  # ruamel.yaml, needed only to write

            edit.set_variable(cli.home, variable.name, value)
        else:
            cli.note(f"{row.name} needs {variable.name}: `hermes config set {variable.name} …`")


def _folder_name(cli: Cli, name: str) -> str:
    """Return the folder of the plugin with this name in its manifest."""
    folders = [
        plugin.folder.name
        for plugin in installed_plugins(cli.home)
        if plugin.name == name and plugin.origin is PluginOrigin.USER and plugin.folder is not None
    ]
    return folders[0] if folders else name


def _plugin_installer(cli: Cli) -> PluginInstaller:
    return PluginInstaller(
        cli.home.plugins, PluginFetcher(child_environment(saved=cli.load().saved))
    )

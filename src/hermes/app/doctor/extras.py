"""Skills, plugins, hooks, MCP servers and memory: what is set up and cannot work. No code of a
plugin, a hook or a server is run."""

import ast
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from hermes.app.doctor.findings import Finding, Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.app.skill_shelf import external_folders, external_warnings, skill_roots
from hermes.config.environment import search_path
from hermes.config.home import tilde
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import HermesError
from hermes.mcp import McpLimits, ServerUnavailable, TransportFactory, program_environment
from hermes.mcp.oauth import LoginStore
from hermes.memory import BUNDLED_PROVIDERS, list_providers, load_provider
from hermes.plugins.discovery import (
    Plugin,
    PluginKind,
    PluginSelection,
    PluginState,
    default_places,
    find_plugins,
)
from hermes.plugins.isolation import ProblemReporter
from hermes.plugins.manifest import CODE
from hermes.plugins.shell_hooks import HookApprovals, find_program, parse_hooks
from hermes.skills import SkillIndex
from hermes.util.text import many


def skills(scene: Scene) -> Found:
    shelf = SkillIndex(skill_roots(scene.loaded, scene.home))
    broken = [
        warning(f"the skill {tilde(each.file)} does not load: {each.reason}", "correct the file")
        for each in shelf.broken()
    ]
    missing = [
        warning(f"skills.external_dirs: there is no folder {tilde(folder)}", "correct the setting")
        for folder in external_folders(scene.loaded, scene.home)
        if not folder.is_dir()
    ]
    wrong = [warning(text, "correct the setting") for text in external_warnings(scene.loaded)]
    return [*broken, *missing, *wrong] or [
        fine(f"{many(len(shelf.skills()), 'skill')}, all of them load")
    ]


def plugins(scene: Scene) -> Found:
    settings = scene.settings.plugins
    places = default_places(scene.home.plugins, Path.cwd() if settings.project else None)
    known = find_plugins(places)
    choice = PluginSelection(settings.enabled, settings.disabled)
    on = [
        p for p in known if p.kind is PluginKind.PLUGIN and choice.state(p) is PluginState.ENABLED
    ]
    found = [
        problem(
            f"the plugin {name} is enabled but not there",
            f"`hermes plugins install` adds one; or: hermes plugins disable {name}",
        )
        for name in settings.enabled
        if not any(each.is_among((name,)) for each in known)
    ]
    for plugin in on:
        found += _plugin(scene, plugin)
    return found or [fine(f"{many(len(on), 'plugin')} enabled")]


def _plugin(scene: Scene, plugin: Plugin) -> Iterator[Finding]:
    off = f"hermes plugins disable {plugin.name}"
    fault = plugin.problem or _fault_in_code(plugin)
    if fault:
        yield problem(f"the plugin {plugin.name} cannot be loaded: {fault}", f"mend it, or: {off}")
    for variable in plugin.manifest.requires_env:
        if not scene.loaded.variable(variable.name):
            where = f" ({variable.url})" if variable.url else ""
            text = f"the plugin {plugin.name} needs {variable.name}, which is not set"
            yield warning(text, f"hermes config set {variable.name} VALUE{where}")


def _fault_in_code(plugin: Plugin) -> str:
    """What shows without running it."""
    if plugin.folder is None:
        return ""
    path = plugin.folder / CODE
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        return f"{CODE}: {error}"
    names = {getattr(node, "name", "") for node in tree.body}
    brought = {alias.asname or alias.name for node in ast.walk(tree)
               if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
    assigned = {target.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
                for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
    has_register = {"register", "*"} & {*names, *brought, *assigned}
    return "" if has_register else f"{CODE} has no register(ctx)"


def hooks(scene: Scene) -> Found:
    found: Found = []
    settings = scene.settings
    reports = ProblemReporter(
        lambda text: found.append(warning(text, "correct the setting `hooks`"))
    )
    known = parse_hooks(settings.hooks, reports)
    consents = HookApprovals(scene.home.root)
    consents.all()  # raises ConfigError when the file is damaged
    for hook in known:
        _, fault = find_program(hook.command, search_path())
        if fault:
            text = f"the hook {hook.command} at {hook.event}: {fault}"
            found.append(problem(text, "correct the setting `hooks`"))
        elif not settings.hooks_auto_accept and not consents.find(hook.event, hook.command):
            text = f"the hook {hook.command} at {hook.event} does not run: you did not consent"
            found.append(warning(text, f"`hermes hooks test {hook.event}` asks for it"))
    return found or [fine(f"{many(len(known), 'shell hook')}")]


def mcp(scene: Scene) -> Found:
    servers = {name: each for name, each in scene.settings.mcp_servers.items() if each.enabled}
    found: Found = []
    for name, server in servers.items():
        fault = _server_fault(name, server) or _login_fault(scene, name, server)
        if fault:
            found.append(problem(f"the MCP server {name}: {fault}", f"hermes mcp test {name}"))
    return found or [fine(f"{many(len(servers), 'MCP server')}")]


def _server_fault(name: str, server: McpServer) -> str:
    try:
        TransportFactory(McpLimits()).kinds(name, server)
    except ServerUnavailable as error:
        return str(error)
    if server.url:
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"its address {server.url!r} is no web address"
        return ""
    path = program_environment(server.env).get("PATH")
    missing = shutil.which(server.command, path=path) is None
    return f"there is no program {server.command!r}" if missing else ""


def _login_fault(scene: Scene, name: str, server: McpServer) -> str:
    if server.auth != "oauth":
        return ""
    try:
        login = LoginStore(scene.home.root / "mcp-tokens", name).load()
    except HermesError as error:
        return str(error)
    usable = login is not None and login.url == server.url and login.is_usable(time.time())
    return "" if usable else f"you are not signed in (`hermes mcp login {name}`)"


def memory(scene: Scene) -> Found:
    name = scene.settings.memory.provider
    if not name:
        return [fine("no memory provider; the agent keeps its own notes")]
    setup = f"hermes memory setup {name}"
    disabled = scene.settings.plugins.disabled
    infos = {info.name for info in list_providers(scene.home, disabled=disabled)}
    if name not in infos:
        if scene.settings.plugins.enabled:
            text = f"the memory provider {name} must come from a plugin; that was not tried"
            return [warning(text, "`hermes memory test` tries it")]
        return [problem(f"there is no memory provider {name}", "hermes memory setup")]
    own = (scene.home.plugins / "memory" / name, scene.home.plugins / name)
    if name not in BUNDLED_PROVIDERS or any(place.exists() for place in own):
        return [fine(f"{name}, a plugin; `hermes memory test` tries it")]
    provider = load_provider(name, scene.home, scene.loaded.variable)
    if not provider.is_available():
        return [problem(f"the memory provider {name} is not set up", setup)]
    return [fine(f"{name} is set up")]

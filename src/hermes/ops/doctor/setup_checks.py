"""Checks of settings, keys, the session store, models, plugins and other abilities.

No value of a key is ever shown.
"""

import ast
import asyncio
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import psutil

from hermes.app import (
    external_folders,
    external_warnings,
    fallback_choices,
    main_choice,
    opened_store,
    skill_roots,
)
from hermes.config import edit, environment
from hermes.config.environment import is_secret_variable, search_path
from hermes.config.home import Home, active_profile, list_profiles, tilde
from hermes.config.loader import describe, examine
from hermes.config.schema import join_key
from hermes.config.settings import McpServer
from hermes.core import errors
from hermes.mcp import McpLimits, ServerUnavailable, TransportFactory, program_environment
from hermes.mcp.oauth import LoginStore
from hermes.memory import list_providers, load_provider
from hermes.ops.doctor.check import (
    DoctorContext,
    DoctorFinding,
    Findings,
    ProbeAnswer,
    ok,
    problem,
    warning,
)
from hermes.ops.doctor.machine_checks import nearest_existing
from hermes.ops.restore import repair_store
from hermes.ops.status import whole_resolution
from hermes.plugins import (
    HookApprovals,
    Plugin,
    PluginKind,
    PluginSelection,
    PluginState,
    ProblemReporter,
    default_places,
    find_plugins,
    find_program,
    parse_hooks,
)
from hermes.plugins.discovery import BUILT_IN, CODE
from hermes.providers import LOCAL, NO_KEY_REASON, ModelChoice, Target
from hermes.providers.credentials import AuthFile, stored_providers
from hermes.providers.local import Weights, resolve_weights, runtime_is_installed, sha256_of
from hermes.skills import SkillIndex
from hermes.store import as_store_error, refuse_newer
from hermes.store.sqlite import health, repair
from hermes.util.extras import install_hint
from hermes.util.text import human_size, many

MIN_KEY_LENGTHS = {
    "sk-": 20, "sk-or-v1-": 40, "sk-ant-": 40, "ghp_": 36, "hf_": 30, "gsk_": 40, "xai-": 40,
}  # fmt: skip
"""Minimum length of keys by prefix; the longest matching prefix applies."""

_PLACEHOLDER = re.compile(
    r"(?i)your[-_ ]?.*(key|token)|<.*>|change[-_ ]?me|x{4,}|\.{3}|todo|example.*"
)
_MASKED = re.compile(r"\*{3,}|…|\.\.\.")


SHORT_SECRET = (
    f"has fewer than {environment.SHORTEST_SECRET} characters, so it is not removed from output"
)


def config(context: DoctorContext) -> Findings:
    home = context.home
    if not home.config_file.exists():
        return [ok("there is no config.yaml: every setting has its default")]
    try:
        loaded = examine(home)
    except errors.ConfigError as error:
        return [problem(str(error), error.hint or "`hermes config edit` opens it")]
    found = [
        problem(describe(each), "`hermes config edit` opens the file")
        if each.severity == "error"
        else warning(describe(each), "correct it with `hermes config edit`")
        for each in loaded.problems
    ]
    found += [
        warning(f"{name} {SHORT_SECRET}", f"use a longer one: hermes config set {name} VALUE")
        for name in loaded.short_secrets()
    ]
    for move in loaded.moves:
        text = f"config.yaml has an older form: {move.text}"
        found.append(warning(text, "`hermes config migrate` rewrites it"))
    if loaded.moves:  # one migration fixes them all
        found[-1] = warning(found[-1].text, found[-1].advice, lambda: _migrate(home))
    return found or [ok(f"{tilde(home.config_file)} has no errors")]


def _migrate(home: Home) -> str:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = home.config_file.with_name(f"config.yaml.{stamp}.bak")
    done = edit.migrate(home, backup)
    return f"{'; '.join(done)}; the old file is {tilde(backup)}"


def variables(context: DoctorContext) -> Findings:
    path = context.home.env_file
    if not path.exists():
        return [ok("there is no .env")]
    pieces = environment.parse_dotenv(environment.read_dotenv_text(path))
    values, found = environment.dotenv_values(pieces, {}), [*_syntax(pieces, tilde(path))]
    for name, value in values.items():
        if is_secret_variable(name) and (doubt := key_problem(value)):
            found.append(warning(f"{name} {doubt}", f"copy it again: hermes config set {name} KEY"))
        elif environment.is_short_secret((name,), value):
            advice = f"use a longer one: hermes config set {name} VALUE"
            found.append(warning(f"{name} {SHORT_SECRET}", advice))
    for name, value in environment.dotenv_values(pieces, context.environment).items():
        given = context.environment.get(name)
        if value and given and given != value:
            text = f"{name} has another value in the environment; the value of .env is used"
            found.append(warning(text, f"`unset {name}`, or `hermes config unset {name}`"))
    return found or [ok(f"{tilde(path)} holds {many(len(values), 'variable')}")]


def _syntax(pieces: list[environment.Piece], file: str) -> Iterator[DoctorFinding]:
    line, first = 1, dict[str, str]()
    for piece in pieces:
        where, line = f"{file}:{line}", line + len(piece.text.splitlines())
        text = piece.text.strip()
        if not piece.name and text and not text.startswith("#"):
            yield problem(f"{where}: invalid line", "write it as NAME=value")
        elif piece.name and piece.value is None:
            yield warning(f"{where}: {piece.name} has no value", f"write {piece.name}=value")
        elif piece.name and first.setdefault(piece.name, piece.value or "") != piece.value:
            text = f"{where}: {piece.name} is set twice; this line is used"
            yield warning(text, "delete one of the two lines")


def key_problem(value: str) -> str:
    """Return why a key looks wrong, or an empty string."""
    stripped = value.strip()
    if not stripped:
        return ""
    if stripped[0] in "\"'" or stripped[-1] in "\"'":
        return "contains quotes"
    if any(character.isspace() for character in value):
        return "contains spaces"
    if _MASKED.search(value):
        return "is a masked key, not the key itself"
    if _PLACEHOLDER.fullmatch(value):
        return "is a placeholder, not a key"
    beginnings = [each for each in MIN_KEY_LENGTHS if value.startswith(each)]
    least = MIN_KEY_LENGTHS[max(beginnings, key=len)] if beginnings else 0
    return f"has only {len(value)} characters: it looks truncated" if len(value) < least else ""


def logins(context: DoctorContext) -> Findings:
    data = AuthFile(context.home.auth_file).read()  # raises ConfigError with a hint
    if not context.home.auth_file.exists():
        return [ok("there is no auth.json: no key was added with `hermes auth`")]
    names = ", ".join(sorted(stored_providers(data))) or "no provider"
    return [ok(f"auth.json holds keys or logins of {names}")]


# The session store: its state and size.

FULL_CHECK_BYTES = 64 * 2**20
"""Stores up to this size are checked completely, at about 10 ms per MiB."""
LARGE_LOG = 64 * 2**20
LARGE = 5 * 2**30
MUCH_UNUSED = 100 * 2**20
MIN_BYTES = 512

REPAIR = "hermes sessions repair (it keeps the damaged file)"


def session_store(context: DoctorContext) -> Findings:
    """Check the store read-only: opening it for use would migrate or repair it."""
    path = context.home.state_db
    if context.settings.store.url:
        return []
    if not path.exists():
        return [ok("there are no sessions yet")]
    size = path.stat().st_size
    if 0 < size < MIN_BYTES:
        return [problem(f"{tilde(path)} is truncated", REPAIR)]
    try:
        with repair.open_unchanged(path) as connection:
            refuse_newer(connection)
            found = _damage(context, connection, path, size)
            unused = connection.pragma("freelist_count") * connection.pragma("page_size")
            if unused >= MUCH_UNUSED:
                text = f"{human_size(unused)} of it are unused"
                found.append(warning(text, "hermes sessions vacuum"))
    except errors.StoreError as error:
        return [problem(str(error), error.hint)]
    except apsw.Error as error:
        cause = as_store_error(error, path)
        return [problem(str(cause), getattr(cause, "hint", "") or REPAIR)]
    return [*found, *_sizes(path, size)]


def _damage(context: DoctorContext, connection: apsw.Connection, path: Path, size: int) -> Findings:
    wrong: list[str] = []
    try:
        health.check(connection, path)
        if size <= FULL_CHECK_BYTES:
            problems = health.find_problems(connection)
            if problems.tables:
                return [problem(f"{tilde(path)} is damaged: {problems.tables[0]}", REPAIR)]
            wrong = problems.search
    except health.SearchIndexDamaged as error:
        wrong = [str(error)]
    if not wrong:
        depth = "intact" if size <= FULL_CHECK_BYTES else "intact as far as checked"
        return [ok(f"{tilde(path)} is {depth} ({human_size(size)})")]
    text = f"the search index does not match the messages: {wrong[0]}"
    home = context.home
    return [problem(text, REPAIR, lambda: repair_store(home, "").summary)]


def _sizes(path: Path, size: int) -> Findings:
    found: Findings = []
    log = Path(f"{path.resolve()}-wal")
    logged = log.stat().st_size if log.exists() else 0
    if logged > LARGE_LOG:
        text = f"its log has grown to {human_size(logged)}: a program keeps it open"
        found.append(warning(text, "end other hermes programs, then: hermes sessions vacuum"))
    if size > LARGE:
        text = f"{tilde(path)} has {human_size(size)}"
        found.append(warning(text, "hermes sessions prune --older-than 90"))
    left = Path(f"{path.resolve()}.recovering")
    if left.exists():
        text = f"{tilde(left)} is left of an interrupted repair"
        found.append(warning(text, "hermes sessions repair repeats it"))
    return found


async def session_server(context: DoctorContext) -> Findings:
    url = context.settings.store.url
    if not url:
        return []
    notices: list[str] = []
    try:
        async with opened_store(context.home, url, notices.append) as opened:
            stats = await opened.stats()
    except errors.HermesError as error:
        return [problem(str(error), error.hint or "check store.url and the server")]
    text = f"{stats.where} answers and holds {many(stats.sessions, 'session')}"
    return [*(warning(each, "check the server") for each in notices), ok(text)]


# Other profiles.


def profiles(context: DoctorContext) -> Findings:
    known, found = list_profiles(), list[DoctorFinding]()
    for home in known:
        if home.root == context.home.root:
            continue
        advice = f"hermes -p {home.profile} config edit"
        try:
            problems = [each for each in examine(home).problems if each.severity == "error"]
            fault = describe(problems[0]) if problems else ""
        except errors.ConfigError as error:
            fault, advice = str(error), error.hint or advice
        if fault:
            text = f"the profile {home.profile} cannot be used: {fault}"
            found.append(warning(text, advice))
    chosen = active_profile()
    if chosen not in {home.profile for home in known}:
        text = f"the chosen profile {chosen} does not exist"
        found.append(problem(text, "hermes -p default profile use default"))
    return found or [ok(f"{many(len(known), 'profile')}, {context.home.profile} in use")]


# Models: the main model, its endpoint and its fallbacks.

CONTEXT = "context_length"
MAX_FALLBACKS = 8
NO_LIST = (404, 405, 501)  #: Statuses of servers that work but have no list of models.


def main_model(context: DoctorContext) -> Findings:
    try:
        target = context.providers.known_target(main_choice(context.loaded))
    except errors.HermesError as error:
        return [problem(f"no model can answer: {error}", error.hint or "hermes model")]
    named = f"{target.model} on {target.provider}"
    if target.source == NO_KEY_REASON:
        text = f"no key is set: only the small embedded model answers ({target.model})"
        return [warning(text, "hermes auth add openrouter (or another provider) adds a key")]
    return [ok(f"{named}: {target.source}")]


async def endpoint(context: DoctorContext) -> Findings:
    target = context.main_target()
    if target is None or target.provider == LOCAL:
        return []
    answer = await context.probe.answer(target)
    if answer.error is not None or not answer.has_list:
        return [_endpoint_finding(answer, target)]
    listed = ok(f"{answer.host} answers and lists {many(len(answer.models), 'model')}")
    doubt = context.providers.doubt(target)
    if not doubt:
        return [listed]
    return [listed, warning(doubt, f"`hermes models {target.provider}` lists them")]


async def context_window(context: DoctorContext) -> Findings:
    """Check the window: a wrong guess wastes context, or makes turns fail."""
    target = context.main_target()
    if target is None or target.provider == LOCAL:
        return []
    if not context.offline:
        await context.probe.answer(target)  # its list may contain the window
        target = context.main_target() or target
    size = target.profile.context_length
    endpoint = context.providers.resolver.endpoint(target.provider)
    known = context.providers.known.explain(endpoint, target.base_url, target.model)
    if context.settings.model.context_length == size or any(e.field == CONTEXT for e in known):
        return [ok(f"{target.model} has a context of {size:,} tokens")]
    text = f"the context window of {target.model} is not known; {size:,} tokens are assumed"
    key = join_key(("providers", target.provider, "models", target.model, CONTEXT))
    return [warning(text, f"hermes config set '{key}' TOKENS")]


def _endpoint_finding(answer: ProbeAnswer, target: Target) -> DoctorFinding:
    error = answer.error
    if error is None:
        return ok(f"{answer.host} has no list of models, so it was not asked")
    if isinstance(error, errors.CredentialRefused):
        return problem(
            f"{answer.host} refuses the key: {error}",
            f"get a new one, then: hermes auth add {target.provider}",
        )
    if isinstance(error, errors.QuotaSpent | errors.RateLimited):
        return warning(f"{answer.host} answers, but: {error}", error.hint or "check your account")
    if isinstance(error, errors.Unreachable):
        advice = error.hint or "check the network, a proxy (HTTPS_PROXY) and the address"
        return problem(f"{answer.host} cannot be reached: {error}", advice)
    if isinstance(error, errors.ProviderError) and error.status in NO_LIST:
        text = f"{answer.host} answers, but lists no models there (HTTP {error.status})"
        return warning(text, error.hint or "is that the right address?")
    return problem(f"{answer.host}: {error}", error.hint or "`hermes status --deep` tries again")


async def fallbacks(context: DoctorContext) -> Findings:
    choices = list(fallback_choices(context.settings))[:MAX_FALLBACKS]
    return list(await asyncio.gather(*(_fallback(context, choice) for choice in choices)))


async def _fallback(context: DoctorContext, choice: ModelChoice) -> DoctorFinding:
    named = f"{choice.reason}: {choice.model} on {choice.provider}"
    try:
        target = context.providers.known_target(choice)
    except errors.HermesError as error:
        advice = error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} cannot be used: {error}", advice)
    if target.provider == LOCAL:
        return ok(f"{named} runs on this machine")
    answer = await context.probe.answer(target)
    if answer.error is not None:
        advice = answer.error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} would not answer: {answer.error}", advice)
    doubt = context.providers.doubt(target)
    if doubt:
        return warning(f"{named}: {doubt}", f"`hermes models {target.provider}` lists them")
    return ok(f"{named} answers")


def auxiliary(context: DoctorContext) -> Findings:
    if context.main_target() is None:
        return []
    tasks = whole_resolution(context.loaded, context.providers).auxiliary
    return [
        warning(
            f"auxiliary.{name}: {task.problem}",
            task.hint or f"hermes config set auxiliary.{name}.provider main",
        )
        for name, task in tasks.items()
        if task.problem
    ] or [ok(f"{many(len(tasks), 'auxiliary task')} have a model")]


# The embedded model.

MEMORY_FACTOR = 1.3  #: Memory use as a multiple of the file size.


def weights(context: DoctorContext) -> Findings:
    used = any(choice.provider == LOCAL for choice in fallback_choices(context.settings))
    with suppress(errors.HermesError):  # the check `model` reports it
        main = context.providers.resolver.resolve(main_choice(context.loaded))
        used = used or main.provider == LOCAL
    if not used:
        return [ok("not in use")]
    try:
        wanted = resolve_weights(context.settings.local.model, context.home.models)
    except errors.UsageError as error:
        return [problem(str(error), error.hint)]
    file = context.home.models / wanted.file
    found: Findings = []
    if not runtime_is_installed():
        text = "its runtime is not installed yet; it is installed when the model is first used"
        found = [warning(text, f"now: {install_hint('local')}")]
    if not file.is_file():
        return [*found, *_not_downloaded(context, wanted)]
    size = file.stat().st_size
    again = f"hermes local rm {wanted.id}, then hermes local pull {wanted.id}"
    if wanted.size and size != wanted.size:
        text = f"{tilde(file)} has {human_size(size)} instead of {human_size(wanted.size)}"
        return [*found, problem(text, again)]
    if wanted.sha256 and sha256_of(file)[0] != wanted.sha256:
        return [*found, problem(f"{tilde(file)} is damaged: its SHA-256 is wrong", again)]
    return [*found, ok(f"{wanted.label} is complete"), *_memory(size)]


def _not_downloaded(context: DoctorContext, wanted: Weights) -> Findings:
    need = wanted.size * (2 if wanted.wheels else 1)
    place = nearest_existing(context.home.models)
    free = shutil.disk_usage(place).free
    if need > free:
        sizes = f"{human_size(need)} for its download, {human_size(free)} is free"
        text = f"{wanted.label} needs {sizes}"
        return [problem(text, f"free some space on the disk of {tilde(place)}")]
    size = f" ({human_size(wanted.size)})" if wanted.size else ""
    text = f"{wanted.label}{size} is not downloaded yet; it is downloaded when it is first used"
    return [warning(text, f"now: hermes local pull {wanted.id}"), *_memory(wanted.size)]


def _memory(size: int) -> Findings:
    need, free = int(size * MEMORY_FACTOR), psutil.virtual_memory().available
    if need <= free:
        return []
    text = f"it needs about {human_size(need)} of memory, {human_size(free)} is free"
    return [warning(text, "close other programs, or use a provider: hermes auth add openrouter")]


# Skills, plugins, hooks, MCP servers and memory. No code of a plugin, a hook or a server is run.


def skills(context: DoctorContext) -> Findings:
    index = SkillIndex(skill_roots(context.loaded, context.home))
    broken = [
        warning(f"the skill {tilde(each.file)} does not load: {each.reason}", "correct the file")
        for each in index.broken()
    ]
    missing = [
        warning(f"skills.external_dirs: there is no folder {tilde(folder)}", "correct the setting")
        for folder in external_folders(context.loaded, context.home)
        if not folder.is_dir()
    ]
    wrong = [warning(text, "correct the setting") for text in external_warnings(context.loaded)]
    return [*broken, *missing, *wrong] or [ok(f"{many(len(index.entries()), 'skill')}, all load")]


def plugins(context: DoctorContext) -> Findings:
    settings = context.settings.plugins
    places = default_places(context.home.plugins, Path.cwd() if settings.project else None)
    known = find_plugins(places)
    choice = PluginSelection(settings.enabled, settings.disabled)
    on = [
        p for p in known if p.kind is PluginKind.PLUGIN and choice.state(p) is PluginState.ENABLED
    ]
    found = [
        problem(
            f"the plugin {name} is enabled but not installed",
            f"`hermes plugins install` adds one; or: hermes plugins disable {name}",
        )
        for name in settings.enabled
        if not any(each.is_among((name,)) for each in known)
    ]
    for plugin in on:
        found += _plugin(context, plugin)
    return found or [ok(f"{many(len(on), 'plugin')} enabled")]


def _plugin(context: DoctorContext, plugin: Plugin) -> Iterator[DoctorFinding]:
    off = f"hermes plugins disable {plugin.name}"
    fault = plugin.problem or _fault_in_code(plugin)
    if fault:
        yield problem(f"the plugin {plugin.name} cannot be loaded: {fault}", f"fix it, or: {off}")
    for variable in plugin.manifest.requires_env:
        if not context.loaded.variable(variable.name):
            where = f" ({variable.url})" if variable.url else ""
            text = f"the plugin {plugin.name} needs {variable.name}, which is not set"
            yield warning(text, f"hermes config set {variable.name} VALUE{where}")


def _fault_in_code(plugin: Plugin) -> str:
    """Find errors without running the code."""
    if plugin.folder is None:
        return ""
    path = plugin.folder / CODE
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        return f"{CODE}: {error}"
    names = {getattr(node, "name", "") for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return "" if {"register", "*"} & names else f"{CODE} has no register(ctx)"


def hooks(context: DoctorContext) -> Findings:
    found: Findings = []
    settings = context.settings
    reports = ProblemReporter(
        lambda text: found.append(warning(text, "correct the setting `hooks`"))
    )
    known = parse_hooks(settings.hooks, reports)
    approvals = HookApprovals(context.home.root)
    approvals.all()  # raises ConfigError if the file is damaged
    for hook in known:
        _, fault = find_program(hook.command, search_path())
        if fault:
            text = f"the hook {hook.command} at {hook.event}: {fault}"
            found.append(problem(text, "correct the setting `hooks`"))
        elif not settings.hooks_auto_accept and not approvals.find(hook.event, hook.command):
            text = f"the hook {hook.command} at {hook.event} does not run: it is not approved"
            found.append(warning(text, f"`hermes hooks test {hook.event}` asks for it"))
    return found or [ok(f"{many(len(known), 'shell hook')}")]


def mcp(context: DoctorContext) -> Findings:
    servers = {name: each for name, each in context.settings.mcp_servers.items() if each.enabled}
    found: Findings = []
    for name, server in servers.items():
        fault = _server_fault(name, server) or _login_fault(context, name, server)
        if fault:
            found.append(problem(f"the MCP server {name}: {fault}", f"hermes mcp test {name}"))
    return found or [ok(f"{many(len(servers), 'MCP server')}")]


def _server_fault(name: str, server: McpServer) -> str:
    try:
        TransportFactory(McpLimits()).kinds(name, server)
    except ServerUnavailable as error:
        return str(error)
    if server.url:
        parts = urlsplit(server.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"its address {server.url!r} is not a web address"
        return ""
    path = program_environment(server.env).get("PATH")
    missing = shutil.which(server.command, path=path) is None
    return f"there is no program {server.command!r}" if missing else ""


def _login_fault(context: DoctorContext, name: str, server: McpServer) -> str:
    if server.auth != "oauth":
        return ""
    try:
        login = LoginStore(context.home.root / "mcp-tokens", name).load()
    except errors.HermesError as error:
        return str(error)
    usable = login is not None and login.url == server.url and login.is_usable(time.time())
    return "" if usable else f"you are not signed in (`hermes mcp login {name}`)"


def memory(context: DoctorContext) -> Findings:
    name = context.settings.memory.provider
    if not name:
        return [ok("no memory provider; the agent uses its own notes")]
    setup = f"hermes memory setup {name}"
    disabled = context.settings.plugins.disabled
    infos = list_providers(context.home, disabled=disabled)
    where = next((info.where for info in infos if info.name == name), "")
    if not where:
        if context.settings.plugins.enabled:
            text = f"the memory provider {name} must come from a plugin, which was not loaded"
            return [warning(text, "`hermes memory test` tests it")]
        return [problem(f"there is no memory provider {name}", "hermes memory setup")]
    if where != BUILT_IN:
        return [ok(f"{name}, a plugin; `hermes memory test` tests it")]
    provider = load_provider(name, context.home, context.loaded.variable)
    if not provider.is_available():
        return [problem(f"the memory provider {name} is not set up", setup)]
    return [ok(f"{name} is set up")]

"""Loading of the settings of a home: command line, then config.yaml, variables, defaults."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from copy import copy, deepcopy
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from hermes.config import environment, policy
from hermes.config.document import YamlDocument, read_document
from hermes.config.environment import (
    SHORTEST_SECRET,
    Parts,
    bindings,
    describe_unset,
    expand,
    is_reference,
    is_secret_setting,
    is_secret_variable,
    is_short_secret,
    parse_dotenv,
    read_dotenv_text,
    unset_in,
    unset_names,
)
from hermes.config.home import Home, check_home, tilde
from hermes.config.schema import (
    MISSING,
    Converter,
    Mismatch,
    Problem,
    bundled_platforms,
    complete_settings,
    declarations,
    find,
    locate,
    merge,
    nest,
    split_key,
    suggestion,
)
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, UsageError
from hermes.util.lazy import late_pattern

# Environment variables set a key only if config.yaml does not.

_TRUE = frozenset({"1", "true", "yes", "on", "y"})


class Variable(NamedTuple):
    """A variable that sets a key."""

    name: str
    key: str
    flag: str = ""  #: When given, a true value of the variable means this value of the key.
    only_for: tuple[str, ...] = ()
    """If given, the variable applies only to these values of model.provider."""

    @property
    def parts(self) -> Parts:
        return split_key(self.key)

    def meaning(self, text: str) -> str | None:
        """Return the value that `text` sets, or None if it sets nothing."""
        if self.flag:
            return self.flag if text.strip().lower() in _TRUE else None
        return text


def variable_group(prefix: str, section: str, names: str) -> Iterator[Variable]:
    """Return the variables `TERMINAL_` + `SSH_HOST` for `terminal.ssh_host`, for each of
    `names`."""
    for name in names.split():
        yield Variable(f"{prefix}{name}", f"{section}.{name.lower()}")


VARIABLES: tuple[Variable, ...] = msgspec.json.decode(
    Path(__file__).with_name("variables.json").read_bytes(), type=tuple[Variable, ...]
)
"""If two variables set one key, the first one that is set is used."""

_KNOWN = late_pattern(
    r"(?:"
    r"HERMES|TERMINAL|OPENROUTER|NOUS|AI_GATEWAY|OPENAI|COPILOT|GLM|ZAI|Z_AI|KIMI|"
    r"ARCEE|ARCEEAI|MINIMAX|KILOCODE|XIAOMI|HF|GOOGLE|GEMINI|ANTHROPIC|CLAUDE_CODE|"
    r"DASHSCOPE|DEEPSEEK|NVIDIA|OLLAMA|XAI|MISTRAL|AWS|BEDROCK|OPENCODE|GROQ|"
    r"VOICE_TOOLS|PARALLEL|FIRECRAWL|TAVILY|EXA|BRAVE|SEARXNG|BROWSERBASE|BROWSER|CAMOFOX|FAL|"
    r"ELEVENLABS|STT|HONCHO|SUPERMEMORY|TINKER|WANDB|DAYTONA|MODAL|TOOL_GATEWAY|"
    r"WHATSAPP|SIGNAL|TWILIO|SMS|DINGTALK|FEISHU|WECOM|"
    r"WEIXIN|QQ|QQBOT|BLUEBUBBLES|MATTERMOST|HASS|WEBHOOK|API_SERVER|GATEWAY|"
    r"LOCAL|MESSAGING|DELEGATION|SESSION|AUXILIARY|GITHUB|GH|SUDO"
    r")_[A-Z0-9_]+"
)
_NAME = late_pattern(r"[A-Z][A-Z0-9_]*")


def all_variables() -> tuple[Variable, ...]:
    """Return `VARIABLES` and those of the bundled platforms."""
    return (*VARIABLES, *(variable for each in declarations() for variable in each.variables))


def is_variable_name(name: str) -> bool:
    """Return whether `name` is written like a variable and not like a key of config.yaml."""
    return bool(_NAME.fullmatch(name))


def is_known_variable(name: str) -> bool:
    """Return whether Hermes uses the variable `name`."""
    return (
        bool(_KNOWN.fullmatch(name))
        or name.partition("_")[0].lower() in bundled_platforms()
        or is_secret_variable(name)
    )


def key_of(name: str) -> str:
    """Return the key that a variable sets, or ""."""
    return next((variable.key for variable in all_variables() if variable.name == name), "")


class Setting(NamedTuple):
    """A value from a variable."""

    value: str
    name: str
    saved: bool  #: From .env; else from the environment of the process.


def from_variables(
    saved: Mapping[str, str],
    environ: Mapping[str, str],
    provider: str,
    variables: Iterable[Variable] = VARIABLES,
) -> dict[Parts, Setting]:
    """Return the values that variables set. Saved variables take precedence; empty ones are
    ignored.

    `provider` is the provider of config.yaml or the command line, or "".
    """
    found: dict[Parts, Setting] = {}
    for variable in variables:
        text = saved.get(variable.name) or environ.get(variable.name)
        meaning = variable.meaning(text) if text else None
        if meaning is None or variable.parts in found:
            continue
        if variable.only_for:
            named = found.get(("model", "provider"))
            if (provider or (named.value if named else "")) not in variable.only_for:
                continue
        found[variable.parts] = Setting(meaning, variable.name, bool(saved.get(variable.name)))
    return found


# Older forms of settings and their present forms.
#
# `modernise` rewrites any nested mapping in place: plain data when settings are read, the
# comment-keeping form of the file when `hermes config migrate` rewrites it.

MOVED = {
    "max_turns": "agent.max_turns",
    "personalities": "agent.personalities",
    "compression.summary_provider": "auxiliary.compression.provider",
    "compression.summary_model": "auxiliary.compression.model",
    "compression.summary_base_url": "auxiliary.compression.base_url",
    "compression.summary_api_key": "auxiliary.compression.api_key",
    "bedrock.guardrail.id": "bedrock.guardrail.guardrail_identifier",
    "bedrock.guardrail.version": "bedrock.guardrail.guardrail_version",
}
"""Renamed keys. If both are set, the new one is used."""

RENAMED_VALUES = {"approvals.mode": {"ask": "manual", "yolo": "off"}}
"""Renamed values, by key."""


class Move(NamedTuple):
    """One change by `modernise`."""

    old: Parts
    new: Parts
    text: str


def modernise(data: MutableMapping[str, Any]) -> list[Move]:
    """Rewrite older forms in `data` and return the changes."""
    moves: list[Move] = []
    if isinstance(data.get("model"), str):
        data["model"] = {"default": data["model"]}
        moves.append(Move(("model",), ("model", "default"), "model: NAME is now model.default"))
    moves += _fallback_model(data)
    for old, new in MOVED.items():
        moves += _move(data, split_key(old), split_key(new))
    for name, values in RENAMED_VALUES.items():
        key = split_key(name)
        holder = _holder(data, key)
        value = values.get(str(holder[key[-1]])) if holder else None
        if holder is not None and value is not None:
            before, holder[key[-1]] = holder[key[-1]], value
            moves.append(Move(key, key, f"{name}: {before} is now {value}"))
    return moves


def _fallback_model(data: MutableMapping[str, Any]) -> list[Move]:
    """Move `fallback_model` (one entry or a list) to the end of `fallback_providers`."""
    old = data.get("fallback_model")
    chain = data.get("fallback_providers") or []
    if not isinstance(old, MutableMapping | list) or not isinstance(chain, list):
        if "fallback_model" in data and not old:
            del data["fallback_model"]
        return []
    entries = old if isinstance(old, list) else [old]
    complete = [  # an entry without a provider or a model is disabled
        entry
        for entry in entries
        if isinstance(entry, Mapping) and entry.get("provider") and entry.get("model")
    ]
    del data["fallback_model"]
    if complete:
        data["fallback_providers"] = [*chain, *complete]
    where = ("fallback_providers",)
    return [Move(("fallback_model",), where, "fallback_model is now fallback_providers")]


def _move(data: MutableMapping[str, Any], old: Parts, new: Parts) -> list[Move]:
    holder = _holder(data, old)
    if holder is None:
        return []
    value = holder.pop(old[-1])
    if not holder and old[:-1] and (above := _holder(data, old[:-1])) is not None:
        del above[old[-2]]
    if value is None or value == "":
        return []
    target = data
    for part in new[:-1]:
        if not isinstance(target.get(part), MutableMapping):
            target[part] = {}
        target = target[part]
    if target.get(new[-1]) is None:
        target[new[-1]] = value
    return [Move(old, new, f"{'.'.join(old)} is now {'.'.join(new)}")]


def _holder(data: MutableMapping[str, Any], key: Parts) -> MutableMapping[str, Any] | None:
    """Return the block that contains `key`, or None if there is none."""
    holder: Any = data
    for part in key[:-1]:
        holder = holder.get(part)
        if not isinstance(holder, MutableMapping):
            return None
    return holder if key[-1] in holder else None


Kind = Literal["cli", "confirmed", "config", "dotenv", "env", "default"]

NOTHING: Mapping[str, Any] = MappingProxyType({})

CONFIRMED = f"the confirmed policy; {policy.NEXT_STEP} accepts the weaker value"


class Origin(msgspec.Struct, frozen=True):
    """The source of a value, and the sources it took precedence over."""

    value: Any
    kind: Kind
    where: str
    overrode: tuple["Origin", ...] = ()


class Loaded:
    """The settings of one home, and the source of each."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        problems: tuple[Problem, ...],
        sources: "Sources",
        held: "HeldPolicy | None" = None,
    ) -> None:
        self.home = home
        self.settings = settings
        self.policy = held.policy if held else {}
        """The policy of the files, as far as it is confirmed; without the command line."""
        self.unconfirmed = held.unconfirmed if held else {}
        """Weaker values of the files, by key. They have no effect until they are confirmed."""
        self.problems = problems
        self.warnings = tuple(describe(problem) for problem in problems)
        self.moves = sources.moves  #: Older forms that were found and understood.
        self._sources = sources
        self._origins: dict[str, Origin] = {}
        self._complete: Loaded | None = None

    def complete(self) -> "Loaded":
        """Return the settings with the sections of the bundled platforms. Raises ConfigError for an
        invalid value in one of them."""
        if isinstance(self.settings, complete_settings()):
            return self
        if self._complete is None:
            self._complete = _raise_errors(_convert(self._sources.complete(), complete_settings()))
        return self._complete

    def section(self, parts: Parts, kind: type[msgspec.Struct]) -> Any:
        """Return a section of the settings, or decode the block of a plugin that declares `kind`.
        Raises ConfigError for an invalid value."""
        found = find(self.settings, parts)
        if isinstance(found, msgspec.Struct):
            return found
        block = find(self.raw, parts)
        converter = Converter()
        made = converter.section(kind, {} if block in (MISSING, None) else block, parts)
        for problem in converter.problems:
            if problem.severity == "error":
                where = self._sources.place(problem.parts)
                raise ConfigError(f"{problem.key}: {problem.message}", where=where)
        return made

    @property
    def raw(self) -> Mapping[str, Any]:
        """config.yaml as data, with `${NAME}` expanded and unknown keys kept."""
        return self._sources.config

    @property
    def saved(self) -> Mapping[str, str]:
        """The variables of .env."""
        return self._sources.saved

    def value(self, key: str) -> Any:
        """Return the value of a dotted key. Raises UsageError for an unknown key."""
        parts = split_key(key)
        for tree in (lambda: self.settings, lambda: self.complete().settings, lambda: self.raw):
            if (found := find(tree(), parts)) is not MISSING:
                return found
        if locate(parts) is None:
            guess = suggestion(key)
            hint = f"did you mean {guess}?" if guess else "`hermes config show` lists the keys"
            raise UsageError(f"there is no setting {key}", hint=hint)
        return None

    def origin(self, key: str) -> Origin:
        """Return the source of the value of `key`. Raises UsageError for an unknown key."""
        if key not in self._origins:
            value, layers = self.value(key), self._sources.layers(split_key(key))
            top = layers[0] if layers else Origin(None, "default", "the default")
            for name in self.unconfirmed:
                if key == name or key.startswith(f"{name}."):
                    found = find(self.settings, split_key(key))
                    value = None if found is MISSING else found
                    if msgspec.to_builtins(value) != top.value:
                        top = Origin(value, "confirmed", CONFIRMED)
                        layers.insert(0, top)
            self._origins[key] = Origin(
                msgspec.to_builtins(value), top.kind, top.where, tuple(layers[1:])
            )
        return self._origins[key]

    def variable(self, name: str) -> str | None:
        """Return a variable: from .env, else from the process; empty counts as not set."""
        return self.saved.get(name) or environment.variable(name)

    def unset(self, name: str) -> tuple[str, ...]:
        """Return the unset names of a credential that counts as missing."""
        if self.variable(name) or not is_secret_variable(name):
            return ()
        return self._sources.unset.get(name) or unset_names(environment.variables().get(name, ""))

    def remember(self, name: str, value: str) -> None:
        """Record a variable that was just saved in .env."""
        self._sources.saved[name] = value

    def reread_variables(self) -> list[str]:
        """Read .env again and return the names that were added, changed or removed. Settings do
        not change."""
        saved = dict(self.saved)
        fresh = self._sources.read_saved()
        return sorted(name for name in {*saved, *fresh} if saved.get(name) != fresh.get(name))

    secret = variable

    def secrets(self) -> frozenset[str]:
        """Return every known secret value, for redaction: the content of .env except settings,
        and variables and settings with secret names."""
        named = {**environment.variables(), **self.saved}
        values = {value for name, value in named.items() if is_secret_variable(name)}
        values |= {value for name, value in self.saved.items() if not is_known_variable(name)}
        values |= {value for _, value in _secret_settings(msgspec.to_builtins(self.settings))}
        # Also blocks that are not converted.
        values |= {value for _, value in _secret_settings(self.raw)}
        return frozenset(
            value
            for value in values
            if len(value) >= SHORTEST_SECRET
            and not is_reference(value)  # a `${NAME}` is not secret
        )

    def short_secrets(self) -> tuple[str, ...]:
        """Return the names of the secrets in config.yaml that are too short to be redacted."""
        found = _secret_settings(self.raw)
        return tuple(".".join(parts) for parts, value in found if is_short_secret(parts, value))


@cache
def _defaults(section: str) -> Settings:
    """Return all defaults. The manifests of platforms are loaded only for what they declare."""
    if section in Settings.__struct_fields__ and section != "platforms":
        return Settings()
    return complete_settings()()


class Sources:
    """All values with their sources, before they are converted to settings."""

    def __init__(self, home: Home, overrides: Mapping[str, Any], *, user_config: bool) -> None:
        environ = environment.variables()
        self.home, self.user_config = home, user_config
        self.saved: dict[str, str] = {}
        self.unset: dict[str, tuple[str, ...]] = {}
        """Names that a variable of .env refers to and that are not set."""
        self.read_saved()
        self.document = (
            read_document(home.config_file) if user_config else YamlDocument(home.config_file, {})
        )
        modern = deepcopy(self.document.data)
        self.moves: tuple[Move, ...] = tuple(modernise(modern))
        set_variables = {name: value for name, value in self.saved.items() if value}
        self.config: dict[str, Any] = expand(modern, {**environ, **set_variables})
        self.overrides = nest({split_key(key): value for key, value in overrides.items()})
        said = merge(self.config, self.overrides).get("model")
        self._provider = str((said.get("provider") if isinstance(said, Mapping) else "") or "")
        self.variables: dict[Parts, Setting] = from_variables(self.saved, environ, self._provider)

    def complete(self) -> "Sources":
        """Return the same sources with the variables of the bundled platforms."""
        more = copy(self)
        environ = environment.variables()
        more.variables = from_variables(self.saved, environ, self._provider, all_variables())
        return more

    def read_saved(self) -> Mapping[str, str]:
        """Return the current variables of .env."""
        found = bindings(
            parse_dotenv(read_dotenv_text(self.home.env_file)), environment.variables()
        )
        self.saved.clear()
        self.saved.update({each.name: each.value for each in found})
        self.unset = {each.name: each.unset for each in found}
        return self.saved

    def merged(self) -> dict[str, Any]:
        low = nest({parts: setting.value for parts, setting in self.variables.items()})
        return merge(merge(low, self.config), self.overrides)

    def layers(self, parts: Parts) -> list[Origin]:
        """Return all values of the key with their sources, the used one first."""
        layers: list[Origin] = []
        given = find(self.overrides, parts)
        if given not in (MISSING, None):
            layers.append(Origin(given, "cli", "the command line"))
        written = find(self.config, parts)
        if written not in (MISSING, None):
            layers.append(Origin(written, "config", self.where_written(parts)))
        setting = self.variables.get(parts)
        if setting:
            kind: Kind = "dotenv" if setting.saved else "env"
            layers.append(Origin(setting.value, kind, self.where_set(setting)))
        default = find(_defaults(parts[0]), parts)
        if default is not MISSING:
            layers.append(Origin(msgspec.to_builtins(default), "default", "the default"))
        return layers

    def of_own_start(self, parts: Parts) -> bool:
        """Return whether the user's own start sets the key: an option, or a variable of the
        process that no file overrides."""
        if find(self.overrides, parts) not in (MISSING, None):
            return True
        setting = self.variables.get(parts)
        unwritten = find(self.config, parts) in (MISSING, None)
        return setting is not None and not setting.saved and unwritten

    def where_written(self, parts: Parts) -> str:
        """Return `file line N` of the key, also in an older form."""
        old = self._as_written(parts)
        for size in range(len(old), 0, -1):
            if mark := self.document.mark(old[:size]):
                name = f" ({'.'.join(old)})" if old != parts else ""
                return f"{tilde(self.document.path)} line {mark.line}{name}"
        return tilde(self.document.path)

    def _as_written(self, parts: Parts) -> Parts:
        """Return the key in the form that config.yaml has, which may be an older one."""
        moved = (move.old for move in self.moves if parts[: len(move.new)] == move.new)
        return next(moved, parts)

    def where_set(self, setting: Setting) -> str:
        place = tilde(self.home.env_file) if setting.saved else "the environment"
        return f"{setting.name} in {place}"

    def place(self, parts: Parts) -> str:
        """Return the place to correct a problem with `parts`."""
        for size in range(len(parts), 0, -1):
            if find(self.overrides, parts[:size]) is not MISSING:
                return "the command line"
            if find(self.config, parts[:size]) is not MISSING:
                return self.document.where(self._as_written(parts))
            if parts[:size] in self.variables:
                return self.where_set(self.variables[parts[:size]])
        return self.document.where(parts)


def examine(
    home: Home, overrides: Mapping[str, Any] = NOTHING, *, user_config: bool = True
) -> Loaded:
    """Load everything, also the sections of bundled platforms, and report all problems instead of
    raising at the first.

    Files that cannot be read or parsed at all still raise ConfigError.
    """
    check_home(home)
    sources = Sources(home, overrides, user_config=user_config).complete()
    return _convert(sources, complete_settings())


def _convert(sources: Sources, kind: type[Settings]) -> Loaded:
    merged = sources.merged()
    # The names of plugins, which may have blocks of their own.
    plugins = [find(merged, ("memory", "provider")), find(merged, ("context", "engine"))]
    enabled = find(merged, ("plugins", "enabled"))
    plugins += enabled if isinstance(enabled, list) else []
    known = {*bundled_platforms(), *(name for name in plugins if isinstance(name, str))}
    converter = Converter(frozenset(known))
    settings = converter.section(kind, merged)
    found = [
        msgspec.structs.replace(problem, where=sources.place(problem.parts))
        for problem in converter.problems
    ]
    for parts, mark in sources.document.duplicates:
        where = f"{tilde(sources.document.path)}:{mark.line}:{mark.column}"
        found.append(Problem(parts, "is set twice; the last one counts", "warning", where))
    found += _left_unset(sources)
    held = _hold_policy(settings, sources)
    if held.unconfirmed:
        for key in held.unconfirmed:
            settings = _replaced(settings, split_key(key), held.policy[key])
        found.append(Problem((), policy.describe(held.unconfirmed), "warning"))
    return Loaded(sources.home, settings, tuple(found), sources, held)


class HeldPolicy(NamedTuple):
    """The policy of the files as far as it holds, and the weaker values in them, by key."""

    policy: dict[str, Any]
    unconfirmed: dict[str, Any]


def _hold_policy(settings: Settings, sources: Sources) -> HeldPolicy:
    """Compare the policy of the files with the confirmed one."""
    held = HeldPolicy({}, {})
    if not sources.user_config:
        return held
    confirmed = policy.read_policy(sources.home.root)
    for parts in policy.KEYS:
        key, value = ".".join(parts), find(settings, parts)
        own_start = sources.of_own_start(parts)
        if own_start:
            value = _value_of_files(sources, parts)
        held.policy[key] = value
        if confirmed is None or key not in confirmed:
            continue
        held.policy[key] = policy.clamp(parts, value, confirmed[key])
        if held.policy[key] != value and not own_start:
            held.unconfirmed[key] = value
    return held


def _value_of_files(sources: Sources, parts: Parts) -> Any:
    """Return the value that a key has without the command line and the environment."""
    place = locate(parts)
    assert place is not None
    kinds: tuple[Kind, ...] = ("config", "dotenv", "default")
    layer = next(layer for layer in sources.layers(parts) if layer.kind in kinds)
    try:
        return Converter().value(place.type, layer.value, parts)
    except Mismatch:  # reported as a problem
        return find(Settings(), parts)


def _replaced(settings: Any, parts: Parts, value: Any) -> Any:
    """Return the settings with another value of one key."""
    if len(parts) > 1:
        value = _replaced(getattr(settings, parts[0]), parts[1:], value)
    return msgspec.structs.replace(settings, **{parts[0]: value})


def load(home: Home, overrides: Mapping[str, Any] = NOTHING, *, user_config: bool = True) -> Loaded:
    """Load the settings of `home`. `overrides` have dotted keys, as given on the command line.

    The sections of bundled platforms are not among them; see `Loaded.complete`. Raises ConfigError
    for an invalid value. `user_config=False` ignores config.yaml.
    """
    check_home(home)
    return _raise_errors(_convert(Sources(home, overrides, user_config=user_config), Settings))


def _raise_errors(loaded: Loaded) -> Loaded:
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    if not errors:
        return loaded
    first, more = errors[0], len(errors) - 1
    others = f"; {more} more: `hermes config check` lists them" if more else ""
    raise ConfigError(
        f"{first.key}: {first.message}", where=first.where, hint=f"correct it there{others}"
    )


def describe(problem: Problem) -> str:
    """Return a problem as one line."""
    return ": ".join(part for part in (problem.where, problem.key, problem.message) if part)


SHELLS = ("quick_commands", "hooks", "mcp_servers")
"""Settings in which a `${NAME}` may be meant for a shell or another program."""


def _left_unset(sources: Sources) -> list[Problem]:
    """Report every `${NAME}` in the files that is not set."""

    def report(parts: Parts, names: tuple[str, ...], where: str, *, secret: bool) -> Problem:
        then = "so it counts as missing" if secret else "so it stays as it is written"
        return Problem(parts, f"{describe_unset(names)}, {then}", "warning", where)

    env_file = tilde(sources.home.env_file)
    return [
        # The settings of skills may have any name.
        report(p, names, sources.place(p), secret=is_secret_setting(p) and p[0] != "skills")
        for p, names in unset_in(sources.config)
        if p[0] not in SHELLS
    ] + [
        report((name,), names, env_file, secret=is_secret_variable(name))
        for name, names in sources.unset.items()
        if names
    ]


def _secret_settings(value: Any, parts: Parts = ()) -> Iterator[tuple[Parts, str]]:
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _secret_settings(held, (*parts, key))
    elif isinstance(value, list | tuple):
        for held in value:
            yield from _secret_settings(held, parts)
    elif isinstance(value, str) and parts and is_secret_setting(parts):
        yield parts, value

"""Read the settings of a home: command line, then config.yaml, then variables, then defaults."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from hermes.config import environment
from hermes.config.convert import Converter, Problem
from hermes.config.document import Document, read_document
from hermes.config.dotenv import bindings, parse, read_text
from hermes.config.expand import expand, is_reference, told, unset_in, unset_names
from hermes.config.home import Home, check_home, tilde
from hermes.config.keys import MISSING, Parts, find, merge, nest, split_key
from hermes.config.legacy import Move, modernise
from hermes.config.masking import is_secret_setting, is_secret_variable
from hermes.config.schema import locate, suggestion
from hermes.config.settings import Settings
from hermes.config.variables import Setting, from_variables, is_known_variable
from hermes.core.errors import ConfigError, UsageError

Kind = Literal["cli", "config", "dotenv", "env", "default"]

SHORTEST_SECRET = 6
"""Shorter values are not blotted out of texts: they would hit harmless words."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from, and what it won over."""

    value: Any
    kind: Kind
    where: str
    overrode: tuple["Origin", ...] = ()


class Loaded:
    """The settings of one home, and where each came from."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        problems: tuple[Problem, ...],
        sources: "Sources",
    ) -> None:
        self.home = home
        self.settings = settings
        self.problems = problems
        self.warnings = tuple(describe(problem) for problem in problems)
        self.moves = sources.moves
        """Older forms that were found and understood."""
        self._sources = sources
        self._origins: dict[str, Origin] = {}

    @property
    def raw(self) -> Mapping[str, Any]:
        """config.yaml as data, with `${NAME}` expanded and unknown keys kept."""
        return self._sources.config

    @property
    def saved(self) -> Mapping[str, str]:
        """The variables of .env."""
        return self._sources.saved

    def value(self, key: str) -> Any:
        """The value of a dotted key. Raises UsageError when there is no such key."""
        parts = split_key(key)
        found = find(self.settings, parts)
        if found is MISSING:
            found = find(self.raw, parts)
        if found is MISSING:
            place = locate(parts)
            if place is None:
                guess = suggestion(key)
                hint = f"did you mean {guess}?" if guess else "`hermes config show` lists the keys"
                raise UsageError(f"there is no setting {key}", hint=hint)
            return None
        return found

    def origin(self, key: str) -> Origin:
        """Where the value of `key` came from. Raises UsageError when there is no such key."""
        if key not in self._origins:
            self._origins[key] = self._origin(key)
        return self._origins[key]

    def _origin(self, key: str) -> Origin:
        value = self.value(key)
        layers = self._sources.layers(split_key(key))
        top = layers[0] if layers else Origin(None, "default", "the default")
        return Origin(msgspec.to_builtins(value), top.kind, top.where, tuple(layers[1:]))

    def variable(self, name: str) -> str | None:
        """A variable: the one saved in .env, else that of the process; empty is not set."""
        return self.saved.get(name) or environment.variable(name)

    def unset(self, name: str) -> tuple[str, ...]:
        """What a credential that counts as missing refers to, and is not set."""
        if self.variable(name) or not is_secret_variable(name):
            return ()
        return self._sources.unset.get(name) or unset_names(environment.variables().get(name, ""))

    def remember(self, name: str, value: str) -> None:
        """A variable that was saved in .env just now."""
        self._sources.saved[name] = value

    def reread_variables(self) -> list[str]:
        """Read .env again; the names of what is new, changed or gone. Settings stay as they are."""
        saved = dict(self.saved)
        fresh = self._sources.read_saved()
        return sorted(name for name in {*saved, *fresh} if saved.get(name) != fresh.get(name))

    def secret(self, name: str) -> str | None:
        """An API key by the name of its variable."""
        return self.variable(name)

    def secrets(self) -> frozenset[str]:
        """Every known secret value, for redaction: whatever is in .env and no setting of ours, and
        variables and settings whose names say so."""
        named = {**environment.variables(), **self.saved}
        values = {value for name, value in named.items() if is_secret_variable(name)}
        values |= {value for name, value in self.saved.items() if not is_known_variable(name)}
        values |= _secret_settings(msgspec.to_builtins(self.settings), ())
        return frozenset(
            value
            for value in values
            if len(value) >= SHORTEST_SECRET and not is_reference(value)  # which has to be told
        )


@cache
def _defaults() -> Settings:
    return Settings()


class Sources:
    """What was said where, before it became settings."""

    def __init__(self, home: Home, overrides: Mapping[str, Any], *, user_config: bool) -> None:
        environ = environment.variables()
        self.home = home
        self.saved: dict[str, str] = {}
        self.unset: dict[str, tuple[str, ...]] = {}
        """Names that a variable of .env refers to and that are not set."""
        self.read_saved()
        self.document = (
            read_document(home.config_file) if user_config else Document(home.config_file, {})
        )
        modern = deepcopy(self.document.data)
        self.moves: tuple[Move, ...] = tuple(modernise(modern))
        set_variables = {name: value for name, value in self.saved.items() if value}
        self.config: dict[str, Any] = expand(modern, {**environ, **set_variables})
        self.overrides = nest({split_key(key): value for key, value in overrides.items()})
        said = merge(self.config, self.overrides).get("model")
        provider = said.get("provider") if isinstance(said, Mapping) else None
        self.variables: dict[Parts, Setting] = from_variables(
            self.saved, environ, str(provider or "")
        )

    def read_saved(self) -> Mapping[str, str]:
        """The variables of .env, now."""
        found = bindings(parse(read_text(self.home.env_file)), environment.variables())
        self.saved.clear()
        self.saved.update({each.name: each.value for each in found})
        self.unset = {each.name: each.unset for each in found}
        return self.saved

    def merged(self) -> dict[str, Any]:
        low = nest({parts: setting.value for parts, setting in self.variables.items()})
        return merge(merge(low, self.config), self.overrides)

    def layers(self, parts: Parts) -> list[Origin]:
        """Everything that was said about the key, what counts first."""
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
        default = find(_defaults(), parts)
        if default is not MISSING:
            layers.append(Origin(msgspec.to_builtins(default), "default", "the default"))
        return layers

    def where_written(self, parts: Parts) -> str:
        """`file line N` of the key, also when it stands there in an older form."""
        moved = [move for move in self.moves if parts[: len(move.new)] == move.new]
        old = moved[0].old if moved else parts
        for size in range(len(old), 0, -1):
            mark = self.document.mark(old[:size])
            if mark:
                name = f" ({'.'.join(old)})" if moved and old != parts else ""
                return f"{tilde(self.document.path)} line {mark.line}{name}"
        return tilde(self.document.path)

    def where_set(self, setting: Setting) -> str:
        place = tilde(self.home.env_file) if setting.saved else "the environment"
        return f"{setting.name} in {place}"

    def place(self, parts: Parts) -> str:
        """Where a problem with `parts` is to be mended."""
        for size in range(len(parts), 0, -1):
            if find(self.overrides, parts[:size]) is not MISSING:
                return "the command line"
            if find(self.config, parts[:size]) is not MISSING:
                moved = [move for move in self.moves if parts[: len(move.new)] == move.new]
                return self.document.where(moved[0].old if moved else parts)
            if parts[:size] in self.variables:
                return self.where_set(self.variables[parts[:size]])
        return self.document.where(parts)


def examine(
    home: Home, overrides: Mapping[str, Any] = NOTHING, *, user_config: bool = True
) -> Loaded:
    """Read everything and report all problems instead of raising at the first.

    Files that cannot be read or parsed at all still raise ConfigError.
    """
    check_home(home)
    sources = Sources(home, overrides, user_config=user_config)
    merged = sources.merged()
    converter = Converter(_plugin_blocks(merged))
    settings = converter.section(Settings, merged)
    found = [_placed(problem, sources.place(problem.parts)) for problem in converter.problems]
    for parts, mark in sources.document.duplicates:
        where = f"{tilde(sources.document.path)}:{mark.line}:{mark.column}"
        found.append(Problem(parts, "is set twice; the last one counts", "warning", where))
    found += _left_unset(sources)
    return Loaded(home, settings, tuple(found), sources)


def load(home: Home, overrides: Mapping[str, Any] = NOTHING, *, user_config: bool = True) -> Loaded:
    """The settings of `home`. `overrides` have dotted keys, as given on the command line.

    Raises ConfigError for a value that cannot be understood. `user_config=False` leaves
    config.yaml aside.
    """
    loaded = examine(home, overrides, user_config=user_config)
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    if not errors:
        return loaded
    first, more = errors[0], len(errors) - 1
    others = f"; {more} more: `hermes config check` lists them" if more else ""
    raise ConfigError(
        f"{first.key}: {first.message}",
        where=first.where,
        hint=f"correct it there{others}",
    )


def describe(problem: Problem) -> str:
    """One line for a person."""
    return ": ".join(part for part in (problem.where, problem.key, problem.message) if part)


def _placed(problem: Problem, where: str) -> Problem:
    return msgspec.structs.replace(problem, where=where)


SHELLS = ("quick_commands", "hooks", "mcp_servers")
"""Settings in which a `${NAME}` may be meant for a shell, or for a program that replaces it."""


def _left_unset(sources: Sources) -> list[Problem]:
    """Every `${NAME}` in the files that nobody replaces."""
    found = [
        (parts, names, _is_credential(parts), sources.place(parts))
        for parts, names in unset_in(sources.config)
        if parts[0] not in SHELLS
    ]
    env_file = tilde(sources.home.env_file)
    found += [
        ((name,), names, is_secret_variable(name), env_file)
        for name, names in sources.unset.items()
        if names
    ]
    then = {True: "so it counts as missing", False: "so it stays as it is written"}
    return [
        Problem(parts, f"{told(names)}, {then[secret]}", "warning", where)
        for parts, names, secret, where in found
    ]


def _is_credential(parts: Parts) -> bool:
    """What skills are given as it is written may be anything."""
    return is_secret_setting(parts) and parts[0] != "skills"


def _plugin_blocks(merged: Mapping[str, Any]) -> frozenset[str]:
    """Names of plugins, which may have a top-level block of their own."""
    names = [find(merged, ("memory", "provider")), find(merged, ("context", "engine"))]
    enabled = find(merged, ("plugins", "enabled"))
    names += enabled if isinstance(enabled, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _secret_settings(value: Any, parts: Parts) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*(_secret_settings(held, (*parts, key)) for key, held in value.items()))
    if isinstance(value, list | tuple):
        return set().union(*(_secret_settings(held, parts) for held in value))
    return {value} if isinstance(value, str) and parts and is_secret_setting(parts) else set()

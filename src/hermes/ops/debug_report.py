"""The report for a bug: a summary, the findings of the doctor and the ends of the log files,
without secrets and personal data."""

import getpass
import io
import platform
import re
import socket
import sys
import tarfile
import time
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_origin
from urllib.parse import unquote, urlsplit

import msgspec

from hermes import __version__
from hermes.app import Providers
from hermes.app.log_files import FILES as LOG_FILES
from hermes.config import environment
from hermes.config.environment import (
    SHORTEST_SECRET,
    Parts,
    is_secret_setting,
    is_secret_variable,
    mask,
)
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded, key_of
from hermes.config.schema import join_key, locate, members
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.ops.doctor.machine_checks import requirements
from hermes.ops.doctor.run import NoProgress, run_doctor
from hermes.ops.logs import files_of
from hermes.ops.output_files import report_unusable, report_unwritable
from hermes.ops.status import Resolved, whole_resolution
from hermes.providers import own_key_variables
from hermes.providers.credentials import AuthFile, stored_providers
from hermes.security import REDACTION_MARK, Redactor
from hermes.util.concurrency import SystemClock
from hermes.util.files import write_bytes
from hermes.util.text import human_size

# Removal of secrets and personal data from text that leaves the machine.

SHORTEST_NAME = 3
COMMON = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "localhost", "hermes", "node", "app",
     "home", "test", "nobody", "guest"}
)  # fmt: skip
"""User names that identify no person and occur in ordinary text."""

_EMAIL = re.compile(r"[\w.!#$&'*+/=?^`{|}~-]+(?:@|%40)[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"(?<![\w.+])\+\d{8,15}(?!\w)")
_HOME = re.compile(r"((?:/home|/Users|/var/home)/|[A-Za-z]:\\{1,2}Users\\{1,2})[^/\\\s\"':;,)\]]+")
_BLOCK = re.compile(r"^(\s*)[A-Za-z0-9+/_-]{40,}={0,2}\s*$", re.MULTILINE)
"""A line of only base64: part of a key whose first line may be missing."""


class Cleaner:
    """Removes the secrets that `security` recognises, and then personal data."""

    def __init__(self, home: Home, secrets: Iterable[str]) -> None:
        self._redactor = Redactor(secrets)
        self._paths = _paths(home)
        self._names = _names()

    def clean(self, text: str) -> str:
        lines = (
            self._redactor.redact(line) if line.startswith(("{", "[")) else line
            for line in text.splitlines()
        )
        text = self._redactor.redact("\n".join(lines))
        text = _BLOCK.sub(rf"\1{REDACTION_MARK}", text)
        for path, stand_in in self._paths:
            text = re.sub(rf"{re.escape(path)}(?![\w-])", stand_in, text)
        text = _HOME.sub(r"\1USER", text)
        text = _PHONE.sub("PHONE", _EMAIL.sub("EMAIL", text))
        for name, stand_in in self._names:
            text = re.sub(rf"(?i)(?<![^\W_]){re.escape(name)}(?![^\W_])", stand_in, text)
        return text


def _paths(home: Home) -> list[tuple[str, str]]:
    """Return the paths to replace, longest first: the home may be inside the user's folder."""
    paths: dict[str, str] = {}
    try:
        user = Path.home()
    except RuntimeError:
        user = None
    for folder, stand_in in ((home.default_root, "HERMES_HOME"), (user, "~")):
        if folder is None or len(folder.parts) < 2:
            continue
        shown = stand_in
        if user is not None and stand_in != "~" and folder.is_relative_to(user):
            shown = str(Path("~") / folder.relative_to(user))
        for spelling in {str(folder), str(folder.resolve())}:
            paths[spelling] = shown
    return sorted(paths.items(), key=lambda item: len(item[0]), reverse=True)


def _names() -> list[tuple[str, str]]:
    """Return the names that identify this machine or its user, each with its replacement."""
    found = [(socket.gethostname().partition(".")[0], "HOST")]
    with suppress(OSError, KeyError, RuntimeError):  # a user without a name
        found.append((getpass.getuser(), "USER"))
        found.append((Path.home().name, "USER"))
    return [
        (name, stand_in)
        for name, stand_in in found
        if len(name) >= SHORTEST_NAME and name.lower() not in COMMON and not name.isdigit()
    ]


# All secrets of a home, so that they can be removed from a report.

SECRET_FILES = ("auth.json", "mcp-tokens/*.json", "pairing/*.json", "*.json")
"""Files with secrets other than config.yaml and .env."""
_NAMED = re.compile(r"(?i)token|secret|key|passw|credential|code|verifier|cookie|auth")
_NOT_SECRET = re.compile(r"(?:https?://\S*|true|false|[\w-]{0,5}|env:\w+|api_key|oauth|manual)")

_PARAMETER = re.compile(r"[?&]([\w.-]+)=([^&\s#]+)")
_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")


def known_secrets(home: Home, loaded: Loaded | None) -> frozenset[str]:
    """Return the values of variables, settings, logins and tokens; unreadable files are skipped."""
    found = set(_in_variables(home))
    for path in {path for pattern in SECRET_FILES for path in home.root.glob(pattern)}:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            found |= set(_in_json(msgspec.json.decode(path.read_bytes()), named=False))
    if loaded is not None:
        found |= loaded.secrets()
        found |= set(_in_settings(loaded.raw, ()))
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def _in_variables(home: Home) -> Iterator[str]:
    """Yield everything in .env except settings, and variables with secret names."""
    try:
        saved = environment.read_dotenv(home.env_file, environment.variables())
    except ConfigError:  # not readable, so it is not in a report either
        saved = {}
    yield from (value for name, value in saved.items()
                if is_secret_variable(name) or not key_of(name))  # fmt: skip
    for name, value in environment.variables().items():
        if is_secret_variable(name):
            yield value


def _in_json(value: Any, *, named: bool) -> Iterator[str]:
    """Yield texts below a secret name, except obviously harmless ones."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _in_json(held, named=bool(_NAMED.search(str(key))))
    elif isinstance(value, list):
        for held in value:
            yield from _in_json(held, named=named)
    elif isinstance(value, str) and named and not _NOT_SECRET.fullmatch(value):
        yield value


def _in_settings(value: Any, parts: Parts) -> Iterator[str]:
    """Yield secrets of config.yaml, including blocks of plugins that are not settings of Hermes."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _in_settings(held, (*parts, str(key)))
    elif isinstance(value, list):
        yield from _behind_flags([str(held) for held in value])
        for held in value:
            yield from _in_settings(held, parts)
    elif isinstance(value, str):
        if parts and is_secret_setting(parts):
            yield value
        for name, given in _PARAMETER.findall(value):  # of a URL
            if _NAMED.search(name):
                yield from (given, unquote(given))
        yield from (unquote(password) for password in _PASSWORD.findall(value))
        yield from _behind_flags(value.split())


def _behind_flags(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of `--api-key X` and `--api-key=X` in a command."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-") and _NAMED.search(word):
            name, equals, value = word.partition("=")
            if (found := value if equals else after) != name:
                yield found


# Settings that differ from the defaults. Numbers, switches and enumerated words are shown; of free
# text only names of models, providers and tools. All others are only listed as set.

SET = "(set)"
SHOWN = frozenset(
    {"default", "provider", "model", "engine", "backend", "skin", "personality", "timezone",
     "toolsets", "enabled", "disabled", "always", "docker_image", "modal_image", "daytona_image",
     "singularity_image", "quantizations", "order", "only", "ignore"}
)  # fmt: skip
"""Last parts of keys whose text is not personal."""
ADDRESSES = frozenset({"base_url", "endpoint"})
ELSEWHERE = frozenset({"mcp_servers"})  #: Blocks whose members are listed elsewhere.
LONGEST = 80


def changed_settings(settings: Settings) -> dict[str, str]:
    """Return the changed settings by key, as they may be shown."""
    now, usual = msgspec.to_builtins(settings), msgspec.to_builtins(Settings())
    leaves = _differences(now, usual, ())
    return {join_key(parts): _public_value(parts, value) for parts, value in leaves}


def _differences(now: Any, usual: Any, parts: Parts) -> Iterator[tuple[Parts, Any]]:
    if parts and parts[0] in ELSEWHERE:
        return
    if isinstance(now, Mapping):
        below = usual if isinstance(usual, Mapping) else {}
        for key, value in now.items():
            if value != below.get(key, msgspec.UNSET):
                yield from _differences(value, below.get(key), (*parts, str(key)))
    elif isinstance(now, list) and any(isinstance(each, Mapping) for each in now):
        for at, each in enumerate(now):
            default = usual[at] if isinstance(usual, list) and at < len(usual) else {}
            yield from _differences(each, default, (*parts, str(at)))
    elif now not in ("", [], None) or usual not in ("", [], None):
        yield parts, now


def _public_value(parts: Parts, value: Any) -> str:
    name = next((part for part in reversed(parts) if not part.isdigit()), "")
    if is_secret_setting(parts):
        return SET if value else "(none)"
    if name in ADDRESSES and isinstance(value, str):
        return urlsplit(value).hostname or SET
    plain = isinstance(value, bool | int | float) or value in ("", [], None) or name in SHOWN
    place = locate(parts)
    kinds = members(place.type) if place else ()
    is_word = bool(kinds) and all(  # one of the words that the settings enumerate
        get_origin(kind) is Literal or kind in (bool, int, float, types.NoneType) for kind in kinds
    )
    if not plain and not is_word:
        return SET
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST else f"({len(text)} characters)"


# The summary: what is installed and configured.

Fact = tuple[str, str]
LABEL = 12


async def debug_text(home: Home, loaded: Loaded | None) -> str:
    """Return the summary as a Markdown block for `/debug`, without secrets and personal data."""
    return f"```text\n{await summary(home, loaded)}\n```"


async def summary(home: Home, loaded: Loaded | None, *, show_keys: bool = False) -> str:
    """Return the summary as plain lines. `loaded` is None if the settings cannot be read.
    `show_keys` shows the first and last four characters of long keys."""
    facts = list(_program(home))
    if loaded is None:
        facts.append(("settings", "they cannot be read: `hermes doctor` says why"))
    else:
        facts += [*await _models(home, loaded), *_abilities(loaded)]
    lines = [f"{name:<{LABEL}} {text}".rstrip() for name, text in facts]
    if loaded is not None:
        lines += ["", "settings that differ from the defaults:"]
        lines += [f"  {key} = {value}" for key, value in changed_settings(loaded.settings).items()]
    keys = list(_keys(home, loaded, show_keys=show_keys))
    lines += ["", "keys that are set:", *(keys or ["  none"])]
    return Cleaner(home, known_secrets(home, loaded)).clean("\n".join(lines))


def _program(home: Home) -> Iterator[Fact]:
    yield "hermes", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.system()}-{platform.release()}-{platform.machine()} {sys.platform}"
    versions = []
    for one in requirements() or ():
        try:
            versions.append(f"{one.name} {metadata.version(one.name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{one.name} missing")
    yield "packages", ", ".join(versions)
    yield "home", f"{home.root} (profile {home.profile})"
    size = home.state_db.stat().st_size if home.state_db.exists() else 0
    yield "sessions", human_size(size) if size else "none yet"


async def _models(home: Home, loaded: Loaded) -> list[Fact]:
    async with Providers(home, loaded, SystemClock(), NoProgress()) as providers:
        try:
            found = whole_resolution(loaded, providers)
        except HermesError as error:
            return [("model", f"none: {error}")]
    facts = [("model", _model(found.main)), ("because", found.main.why or found.main.problem)]
    facts += [("fallback", _model(each)) for each in found.fallbacks]
    if found.main.problem:
        return facts  # every task has the same problem
    tasks = {name: each for name, each in found.auxiliary.items() if each.model != found.main.model}
    facts += [("auxiliary", f"{name}: {_model(each)}") for name, each in tasks.items()]
    return facts


def _model(found: Resolved) -> str:
    host = urlsplit(found.base_url).hostname or ""
    where = f" at {host}" if host else ""
    state = f": {found.problem}" if found.problem else ""
    return f"{found.model or 'no model'} on {found.provider}{where}{state}"


def _abilities(loaded: Loaded) -> Iterator[Fact]:
    settings = loaded.settings
    yield "terminal", settings.terminal.backend
    yield "toolsets", ", ".join(settings.toolsets) or "none"
    yield "plugins", ", ".join(settings.plugins.enabled) or "none"
    servers = (
        f"{name} ({'program' if each.command else 'address'}, {'on' if each.enabled else 'off'})"
        for name, each in settings.mcp_servers.items()
    )
    yield "mcp", ", ".join(servers) or "none"
    yield "memory", settings.memory.provider or "notes only"
    hooks = (f"{event} {len(each)}" for event, each in settings.hooks.items())
    yield "hooks", ", ".join(hooks) or "none"
    yield "problems", str(len(loaded.problems)) if loaded.problems else "none in config.yaml"


def _keys(home: Home, loaded: Loaded | None, *, show_keys: bool) -> Iterator[str]:
    """Return the names of keys and their sources, never a value."""
    saved = loaded.saved if loaded is not None else {}
    for name in sorted({*(n for n in saved if is_secret_variable(n)), *own_key_variables()}):
        places = ((saved.get(name), ".env"), (environment.variable(name), "environment"))
        for value, where in places:
            if value:
                shown = mask(value) if show_keys else "set"
                yield f"  {name} {shown} ({where})"
    try:
        stored = AuthFile(home.auth_file).read()
    except HermesError:
        yield "  auth.json cannot be read"
        return
    for provider in sorted(stored_providers(stored)):
        yield f"  {provider} set (auth.json)"


WINDOW = 1_000_000
"""Bytes read from the end of a log. More is cleaned than is shown, so that a secret of several
lines is recognised."""
ARCHIVES = (".tar.gz", ".tgz")


class ReportPart(msgspec.Struct, frozen=True):
    name: str
    text: str


async def parts(home: Home, loaded: Loaded | None, lines: int) -> list[ReportPart]:
    """Return the parts of the report. Raises `HermesError` if a known secret is left in them."""
    secrets = known_secrets(home, loaded)
    cleaner = Cleaner(home, secrets)
    findings = "\n".join(
        f"{each.level:<8} {outcome.name}: {each.text}"
        for outcome in await run_doctor(home, SystemClock(), offline=True)
        for each in outcome.found
    )
    found = [
        ReportPart("summary.txt", await summary(home, loaded)),
        ReportPart("doctor.txt", cleaner.clean(findings)),
        *(ReportPart(name, _tail(home.logs / name, lines, cleaner)) for name in LOG_FILES),
    ]
    for part in found:  # once more; short values may be ordinary words
        if any(len(secret) >= 8 and secret in part.text for secret in secrets):
            raise HermesError(
                f"a secret would have been left in {part.name}; nothing was written",
                hint="`hermes dump` and `hermes logs` show the same one by one",
            )
    return [part for part in found if part.text]


def _tail(path: Path, count: int, cleaner: Cleaner) -> str:
    """Return the last lines of a log, including the previous file if it is short."""
    text = ""
    for file in files_of(path)[:2]:
        text = _end_of(file) + text
        if text.count("\n") >= count:
            break
    lines = cleaner.clean(text).splitlines() if text else []
    return "\n".join(lines[max(0, len(lines) - count) :])


def _end_of(file: Path) -> str:
    with report_unusable(file), file.open("rb") as opened:
        size = opened.seek(0, io.SEEK_END)
        opened.seek(max(0, size - WINDOW))
        data = opened.read()
    if size > WINDOW:  # the first line may begin inside a secret
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def bundle_path(home: Home) -> Path:
    """Return the default path, in a private folder of the home."""
    folder = ensure_hermes_home(home) / "debug"
    with report_unusable(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return folder / f"hermes-debug-{stamp}.txt"


def write(path: Path, found: Sequence[ReportPart]) -> None:
    """Write a text, or an archive if the name ends in .tar.gz, readable only by its owner."""
    if path.exists():
        raise UsageError(f"{path} exists already", hint="choose another name with -o")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if path.name.endswith(ARCHIVES):
        data = _archive(found)
    else:
        text = "".join(f"===== {part.name} =====\n{part.text}\n\n" for part in found)
        data = text.encode()
    with report_unwritable(path):
        write_bytes(path, data, mode=0o600)


def _archive(found: Sequence[ReportPart]) -> bytes:
    """Return a tar archive without the name and the ids of the user."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in found:
            data = f"{part.text}\n".encode()
            entry = tarfile.TarInfo(f"hermes-debug/{part.name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()

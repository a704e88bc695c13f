"""Install, update and remove plugins in the user's plugin folder."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.plugins.discovery import (
    CODE,
    NAME,
    NAMING,
    PROVIDER_FOLDERS,
    PluginManifest,
    read_manifest,
)
from hermes.store import GitCommandFailed, safe_git
from hermes.util import files
from hermes.util.http import is_loopback

GIT_SECONDS = 300.0  #: Time limit for a run of git.
_GITHUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SSH = re.compile(r"[\w.-]+@[\w.-]+:[^\s-]\S*", re.ASCII)
_SCHEMES = frozenset({"https", "ssh", "file"})


class PluginSource(msgspec.Struct, frozen=True):
    address: str  #: A git address, or the path of a folder.
    folder: bool = False


def parse_source(said: str) -> PluginSource:
    """Parse the argument of `hermes plugins install`. Raises `UsageError`."""
    place = Path(said).expanduser()
    if said and (said.startswith(("/", ".", "~")) or place.is_dir()):
        if not place.is_dir():
            raise UsageError(f"there is no folder {said}")
        return PluginSource(str(place.resolve()), folder=True)
    if _GITHUB.fullmatch(said):
        return PluginSource(f"https://github.com/{said.removesuffix('.git')}.git")
    if _SSH.fullmatch(said):
        return PluginSource(said)
    url = urlsplit(said)
    if url.scheme in _SCHEMES or (url.scheme == "http" and is_loopback(url.hostname or "")):
        return PluginSource(said)
    if url.scheme in ("http", "git"):
        raise UsageError(f"{said} is not encrypted", hint="use its https:// address")
    raise UsageError(
        f"{said!r} is not a plugin that can be fetched",
        hint="give owner/repo (on GitHub), a git URL, or a folder such as ./my-plugin",
    )


class PluginFetchError(HermesError):
    """git is missing or failed."""


class PluginFetcher:
    """Runs git with `environment`, which must not contain secrets."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {
            **environment, "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C",
        }  # fmt: skip

    def clone(self, address: str, folder: Path) -> None:
        self._git(folder.parent, "clone", "--quiet", "--depth=1", "--", address, str(folder))

    def update(self, folder: Path) -> None:
        """Pull new commits. Untracked files in the folder of the plugin stay."""
        try:
            self._git(folder, "pull", "--quiet", "--ff-only")
        except PluginFetchError as error:
            error.hint += "; when you changed its files, install it again with --force"
            raise

    def commit(self, folder: Path) -> str:
        return self._git(folder, "rev-parse", "--short", "HEAD").strip()

    def _git(self, folder: Path, *arguments: str) -> str:
        """Run git in `folder`, without running code of a repository or asking for a password."""
        if shutil.which("git", path=self._environment.get("PATH")) is None:
            raise PluginFetchError("git is not installed", hint="install it, or give a folder")
        try:
            words, environment = safe_git("git", self._environment, folder, arguments)
            done = subprocess.run(
                ["git", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=GIT_SECONDS,
                check=False,
            )
        except GitCommandFailed as error:
            raise PluginFetchError(str(error), hint=error.hint) from error
        except subprocess.TimeoutExpired as error:
            raise PluginFetchError(f"git took longer than {GIT_SECONDS:.0f} seconds") from error
        if done.returncode:
            # The line that states the problem; advice follows it.
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            errors = [line for line in said if line.startswith(("fatal: ", "error: "))]
            problem = (errors or said or [f"exit code {done.returncode}"])[0]
            raise PluginFetchError(
                f"git failed: {problem}", hint="check the address and your access"
            )
        return done.stdout


RECORD = ".installed.json"
"""File in the plugin folder: the source folder of each plugin that was copied, for updates."""
GIT = ".git"


class PluginUpdate(msgspec.Struct, frozen=True):
    """The result of an update."""

    manifest: PluginManifest
    before: str
    after: str  #: Commits of a repository, or versions.


class PluginInstaller:
    """`folder` is `<home>/plugins`."""

    def __init__(self, folder: Path, fetcher: PluginFetcher) -> None:
        self._folder, self._fetcher = folder, fetcher

    def install(self, source: PluginSource, *, force: bool = False) -> PluginManifest:
        """Install a plugin without running its code. `force` replaces one of the same name.

        A failed installation leaves nothing behind.
        """
        self._record()  # fail early if the record cannot be read
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".install-", dir=self._folder) as staging:
                fetched = Path(staging) / "plugin"
                if source.folder:
                    _copy(Path(source.address), fetched)
                else:
                    self._fetcher.clone(source.address, fetched)
                manifest = _check_plugin(fetched, source)
                self._put(fetched, manifest.name, Path(staging), force=force)
        except OSError as error:
            raise unusable(self._folder, error) from error
        self._note(manifest.name, source.address if source.folder else None)
        return manifest

    def _put(self, fetched: Path, name: str, staging: Path, *, force: bool) -> None:
        place = self._folder / name
        if place.exists() or place.is_symlink():
            if not force:
                raise UsageError(
                    f"there is a plugin {name} already ({tilde(place)})",
                    hint=f"`hermes plugins update {name}` updates it; --force replaces it",
                )
            old = place.rename(staging / "old")
            try:
                fetched.rename(place)
            except OSError:
                old.rename(place)
                raise
        else:
            fetched.rename(place)

    def update(self, name: str) -> PluginUpdate:
        place = self.place_of(name)
        try:
            old = read_manifest(place).version
        except ConfigError:
            old = "?"  # the update may fix it
        if (place / GIT).exists():
            before = self._fetcher.commit(place)
            self._fetcher.update(place)
            return PluginUpdate(_check_plugin(place), before, self._fetcher.commit(place))
        origin = self._record().get(name)
        if origin is None:
            raise UsageError(
                f"the source of plugin {name} is not known",
                hint="install it again: hermes plugins install SOURCE --force",
            )
        _check_plugin(Path(origin), PluginSource(origin, folder=True))
        try:
            _remove_conflicts(Path(origin), place)
            _copy(Path(origin), place)
        except OSError as error:
            raise unusable(place, error) from error
        manifest = read_manifest(place)
        return PluginUpdate(manifest, old, manifest.version)

    def remove(self, name: str) -> Path:
        """Remove a plugin. For a symlink, only the link is removed."""
        place = self.place_of(name)
        try:
            if place.is_symlink():
                place.unlink()
            else:
                shutil.rmtree(place)
        except OSError as error:
            raise unusable(place, error) from error
        self._note(name, None)
        return place

    def place_of(self, name: str) -> Path:
        """Return the folder of an installed plugin. Raises `UsageError`."""
        place = self._folder / name
        if name in self.installed():
            return place
        raise UsageError(
            f"plugin {name!r} is not among those you installed",
            hint=f"installed are: {', '.join(self.installed()) or 'none'}",
        )

    def installed(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        names = sorted(place.name for place in self._folder.iterdir() if place.is_dir())
        return [
            name
            for name in names
            if name not in PROVIDER_FOLDERS and not name.startswith((".", "__"))
        ]

    def updatable(self) -> list[str]:
        known = self._record()
        return [n for n in self.installed() if n in known or (self._folder / n / GIT).exists()]

    def _record(self) -> dict[str, str]:
        try:
            raw = (self._folder / RECORD).read_bytes()
            return msgspec.json.decode(raw, type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"cannot be read: {error}",
                where=tilde(self._folder / RECORD),
                hint="delete the file; it is only needed to update plugins that came from a folder",
            ) from error

    def _note(self, name: str, origin: str | None) -> None:
        held = self._record()
        after = {
            **{n: o for n, o in held.items() if n != name},
            **({name: origin} if origin else {}),
        }
        if after != held:
            files.write_bytes(self._folder / RECORD, msgspec.json.encode(after), mode=0o600)


def _check_plugin(folder: Path, source: PluginSource | None = None) -> PluginManifest:
    """Return the manifest of a fetched folder. Raises `UsageError` if it is not a plugin."""
    try:
        manifest = read_manifest(folder)
    except ConfigError as error:
        what = source.address if source else tilde(folder)
        problem = str(error).rpartition(f"{tilde(folder)}/")[2]
        raise UsageError(f"{what} is not a plugin: {problem}", hint=error.hint) from error
    if not (folder / CODE).is_file():
        raise UsageError(f"{manifest.name} is not a plugin: {CODE} is missing")
    if manifest.name in PROVIDER_FOLDERS:
        raise UsageError(f"a plugin cannot be called {manifest.name}")
    return manifest


def _remove_conflicts(source: Path, place: Path) -> None:
    """Remove links that copying would follow, and files that a link is to replace."""
    for folder, folders, names in os.walk(source):
        inside = place / Path(folder).relative_to(source)
        for name in (*folders, *names):
            new, old = Path(folder) / name, inside / name
            if old.is_symlink() or (new.is_symlink() and old.is_file()):
                old.unlink()


def _copy(source: Path, into: Path) -> None:
    """Copy over existing files, keeping symlinks, without the git history."""
    leave = shutil.ignore_patterns(GIT, "__pycache__")
    try:
        shutil.copytree(source, into, symlinks=True, dirs_exist_ok=True, ignore=leave)
    except shutil.Error as error:
        raise UsageError(f"{source} cannot be copied: {error.args[0][0][2]}") from error


# `hermes plugins new`: a plugin that works, to start from. @NAME@ and @WORD@ are replaced.

_SCAFFOLD = {
    "plugin.yaml": """\
name: @NAME@
version: 0.1.0
description: Greets people.
provides_tools: [@WORD@_greet]
provides_hooks: [pre_tool_call]
""",
    CODE: '''\
"""The plugin @NAME@: a tool, a hook and a slash command. Replace them by your own."""

import json

GREET = {
    "description": "Greet a person.",
    "parameters": {
        "type": "object",
        "properties": {"who": {"type": "string", "description": "the name of the person"}},
        "required": ["who"],
    },
}


def greet(args, **kwargs):
    """The tool @WORD@_greet: return a JSON string for the model."""
    return json.dumps({"greeting": f"Hello, {args['who']}!"})


def check_call(tool_name, args):
    """The hook before each tool call: None lets the call pass."""
    if tool_name == "@WORD@_greet" and not args["who"].strip():
        return {"action": "block", "message": "say whom to greet"}
    return None


def greet_command(text):
    """The slash command: return the text to show."""
    return f"Hello, {text or 'you'}!"


def register(ctx):
    # The effect says what the tool does at most: a tool that only reads needs no approval.
    ctx.register_tool("@WORD@_greet", "@NAME@", GREET, greet, effect="read")
    ctx.register_hook("pre_tool_call", check_call)
    ctx.register_command("@WORD@", greet_command, "greet a person")
''',
    "tests/test_plugin.py": '''\
"""Tests of the plugin; `hermes plugins test` runs them."""

import asyncio
import json
import unittest
from pathlib import Path

from hermes.sdk import HookName
from hermes.sdk.testing.plugin import call_tool, load_plugin


class PluginTest(unittest.TestCase):
    def setUp(self):
        self.plugin = load_plugin(Path(__file__).parents[1])

    def test_tool_greets(self):
        answer = json.loads(call_tool(self.plugin.tools["@WORD@_greet"], {"who": "Ada"}))
        self.assertEqual(answer, {"greeting": "Hello, Ada!"})

    def test_hook_blocks_an_empty_name(self):
        call = {"tool_name": "@WORD@_greet", "args": {"who": " "}, "task_id": "s1"}
        (veto,) = asyncio.run(self.plugin.hooks.fire(HookName.PRE_TOOL_CALL, **call))
        self.assertEqual(veto["message"], "say whom to greet")

    def test_command_greets(self):
        self.assertEqual(asyncio.run(self.plugin.commands["@WORD@"]("Ada")), "Hello, Ada!")
''',
}


def create_plugin(folder: Path, name: str) -> None:
    """Write a plugin that works into `folder`, which must not exist. Raises `UsageError`."""
    if not NAME.fullmatch(name) or name in PROVIDER_FOLDERS:
        raise UsageError(f"{name!r} cannot be the name of a plugin", hint=NAMING)
    if folder.exists():
        raise UsageError(f"{tilde(folder)} exists already", hint="choose another name")
    word = re.sub(r"[^a-z0-9]", "_", name.lower())
    try:
        for path, text in _SCAFFOLD.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("@NAME@", name).replace("@WORD@", word), "utf-8")
    except OSError as error:
        raise unusable(folder, error) from error

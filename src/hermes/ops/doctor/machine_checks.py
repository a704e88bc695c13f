"""Checks of the home folder, installation, left-over files, logs, clock, terminal and programs."""

import locale
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from hermes import __version__
from hermes.app import find_terminal
from hermes.app.log_files import ERRORS, FILES
from hermes.config.home import ensure_hermes_home, tilde
from hermes.config.settings import Settings
from hermes.ops.doctor.check import DoctorContext, DoctorFinding, Findings, ok, problem, warning
from hermes.ops.logs import LogFilter, files_of, last_entries
from hermes.providers import LOCAL
from hermes.terminal import SANDBOX_PROBE, is_installed, open_boundary, probe_program
from hermes.util.extras import BASE, extras, install_hint
from hermes.util.text import human_duration, human_size, many

PRIVATE_FILES = (
     ".env", "auth.json", "state.db", "mcp-tokens/*.json", "pairing/*.json",
    "shell-hooks-allowlist.json",
)  # fmt: skip
PRIVATE_FOLDERS = ("mcp-tokens", "pairing")
OTHERS = 0o077

LOW_SPACE, NO_SPACE = 500_000_000, 50_000_000
FEW_FILES = 1000
NETWORK = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb3", "afs", "afpfs", "ncpfs", "9p", "ceph",
     "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "webdav", "davfs"}
)  # fmt: skip


def folder(context: DoctorContext) -> Findings:
    home = context.home
    if not home.root.exists():
        text, advice = f"{home.display()} does not exist yet", "Hermes creates it on its first use"
        return [warning(text, advice, lambda: f"created {tilde(ensure_hermes_home(home))}")]
    if not home.root.is_dir():
        return [problem(f"{home.display()} is not a folder", "set HERMES_HOME to a folder")]
    try:
        with tempfile.TemporaryFile(dir=home.root):
            pass
    except OSError as error:
        text = f"{home.display()} cannot be written to: {(error.strerror or str(error)).lower()}"
        advice = "change its owner or permissions, or set HERMES_HOME to another folder"
        return [problem(text, advice)]
    return [ok(f"{home.display()} can be written to")]


def owner(context: DoctorContext) -> Findings:
    root = context.home.root
    if not root.is_dir():
        return []
    me = os.geteuid()
    foreign = [path for path in (root, *sorted(root.iterdir())) if path.lstat().st_uid != me]
    if not foreign:
        return [ok("all files belong to you")]
    more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
    text = f"files of another user: {_first_paths(foreign)}{more} (was Hermes started with sudo?)"
    return [problem(text, f"sudo chown -R $(id -un) {shlex.quote(str(root))}")]


def _first_paths(paths: list[Path]) -> str:
    return ", ".join(tilde(path) for path in paths[:3])


def permissions(context: DoctorContext) -> Findings:
    if os.name != "posix" or not context.home.root.is_dir():
        return []
    root = context.home.root
    modes = dict.fromkeys((root, *(root / name for name in PRIVATE_FOLDERS)), 0o700)
    modes |= {path: 0o600 for name in PRIVATE_FILES for path in sorted(root.glob(name))}
    found = [
        _too_open(path, mode)
        for path, mode in modes.items()
        if path.exists() and path.stat().st_mode & OTHERS
    ]
    return found or [ok("only you can open your keys, logins and conversations")]


def _too_open(path: Path, mode: int) -> DoctorFinding:
    def close() -> str:
        path.chmod(mode)
        return f"{tilde(path)} now has mode {mode:o}"

    text = f"other users can open {tilde(path)} (mode {path.stat().st_mode & 0o777:o})"
    return warning(text, f"chmod {mode:o} {shlex.quote(str(path))}", close)


def disk_space(context: DoctorContext) -> Findings:
    place = nearest_existing(context.home.root)
    free = shutil.disk_usage(place).free
    files = os.statvfs(place)
    few = files.f_files > 0 and files.f_favail < FEW_FILES
    advice = f"free some space on the disk of {tilde(place)}"
    if free < NO_SPACE or (few and files.f_favail == 0):
        what = human_size(free) if free < NO_SPACE else "no file"
        return [problem(f"only {what} is left on the disk: writing will fail soon", advice)]
    if free < LOW_SPACE or few:
        left = human_size(free) if free < LOW_SPACE else many(files.f_favail, "file")
        return [warning(f"only {left} left on the disk", advice)]
    return [ok(f"{human_size(free)} free on its disk")]


def file_system(context: DoctorContext) -> Findings:
    place = nearest_existing(context.home.root).resolve()
    mounts = [m for m in psutil.disk_partitions(all=True) if place.is_relative_to(m.mountpoint)]
    mount = max(mounts, key=lambda each: len(each.mountpoint), default=None)
    if mount is None:
        return [ok("the type of its file system is not known")]
    elsewhere = "set HERMES_HOME to a folder on a disk of this machine"
    if "ro" in mount.opts.split(","):
        return [problem(f"{mount.mountpoint} is mounted read-only", elsewhere)]
    if mount.fstype in NETWORK:
        text = f"it is on a network file system ({mount.fstype}), where SQLite may lose data"
        return [warning(text, elsewhere)]
    return [ok(f"it is on {mount.fstype}, mounted at {mount.mountpoint}")]


def nearest_existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


# The installation: Python and the required packages.

DISTRIBUTION = "hermes"
CHECKOUT = Path(__file__).parents[4]
OLDEST_PYTHON = (3, 11)

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<wanted>[^;]*)(?P<marker>;.*)?"
)
_LEAST = re.compile(r">=\s*([\d.]+)")


class Requirement(NamedTuple):
    name: str
    least: str  #: The minimum version; empty for any.
    extra: str = BASE  #: Its name for `hermes setup`.


def python(_: DoctorContext) -> Findings:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return [
            problem(f"Python {version} is too old, {oldest} is needed", "install a newer Python")
        ]
    return [ok(f"Hermes {__version__} on Python {version}")]


def packages(context: DoctorContext) -> Findings:
    wanted = requirements()
    if wanted is None:
        return [warning("the required packages are not known", "install Hermes again")]
    found: Findings = []
    for one in [*wanted, *(_extras(context.settings) if context.has_settings else ())]:
        try:
            version = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            found.append(problem(f"the package {one.name} is missing", install_hint(one.extra)))
            continue
        if one.least and _numbers(version) < _numbers(one.least):
            text = f"{one.name} {version} is too old, {one.least} is needed"
            found.append(problem(text, install_hint(one.extra)))
    return found or [ok(f"{many(len(wanted), 'package')} are installed and recent enough")]


def requirements() -> list[Requirement] | None:
    """Return the requirements of the installed package or of the checkout; None if unknown."""
    try:
        lines = metadata.requires(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        try:
            file = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
            lines = file["project"]["dependencies"]
        except (OSError, ValueError, KeyError):
            lines = None
    if lines is None:
        return None
    return [one for line in lines if (one := parse_requirement(line)) is not None]


def parse_requirement(line: str) -> Requirement | None:
    """Return None for a requirement of an extra or of another system."""
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        return None
    marker = (match["marker"] or "").replace('"', "'")
    if "extra ==" in marker or ("!= 'win32'" in marker and sys.platform == "win32"):
        return None
    least = _LEAST.search(match["wanted"])
    return Requirement(match["name"], least[1] if least else "")


def _extras(settings: Settings) -> list[Requirement]:
    """Return the packages of enabled optional features."""
    on = {
        ("psycopg", "postgres"): bool(settings.store.url),
        ("opentelemetry-sdk", "otel"): settings.telemetry.enabled,
    }
    terminal = find_terminal(settings.terminal.backend)
    if terminal and terminal.package in extras():
        on[terminal.package, terminal.package] = True
    return [Requirement(name, "", extra) for (name, extra), needed in on.items() if needed]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `3.0.47`, without suffixes (`rc1`, `+local`)."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# Left-overs of crashed runs: temporary files, processes, damaged caches.

HOUR, DAY = 3600, 24 * 3600
FOLDERS = ("hermes-shell-*", "hermes-code-*", "hermes-acp-*", "hermes-skill-*")
"""In the system's folder for temporary files. Editor files are excluded: they may be unsaved."""
UNFINISHED = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""An unfinished replacement of a file; see `util.atomic`."""
OURS = (
    "", "cache", "cache/models", "cache/mcp", "cron", "logs", "mcp-tokens", "memories", "pairing",
)  # fmt: skip
SERVER = "hermes.providers.local.serve"
INIT = 1
ADOPTERS = ("systemd", "init", "launchd")


def temporary_files(context: DoctorContext) -> Findings:
    now = time.time()
    folders = [context.home.root / name for name in OURS]
    stale = [
        path
        for folder in folders
        for path in (folder.iterdir() if folder.is_dir() else ())
        if UNFINISHED.fullmatch(path.name) and _is_old(path, now - HOUR)
    ]
    stale += _in_temporary(now)
    if not stale:
        return [ok("no temporary files are left")]

    def remove() -> str:
        for path in stale:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return f"removed {many(len(stale), 'temporary file')}"

    text = f"{many(len(stale), 'temporary file')} of crashed runs: {_first_paths(stale)}"
    return [warning(text, "`hermes doctor --fix` removes them", remove)]


def _in_temporary(now: float) -> Iterator[Path]:
    folder = Path(tempfile.gettempdir())
    candidates = [
        path
        for pattern in FOLDERS
        for path in folder.glob(pattern)
        if _is_own_folder(path) and _is_old(path, now - DAY)
    ]
    in_use = ""  # command lines and working folders of all visible processes
    for process in psutil.process_iter(["cmdline", "cwd"]) if candidates else ():
        in_use += f"{' '.join(process.info['cmdline'] or ())}\n{process.info['cwd'] or ''}\n"
    yield from (path for path in candidates if str(path) not in in_use)


def _is_own_folder(path: Path) -> bool:
    facts = path.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _is_old(path: Path, before: float) -> bool:
    try:
        inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
        return all(each.lstat().st_mtime < before for each in (path, *inside))
    except OSError:  # it is in use
        return False


def processes(_: DoctorContext) -> Findings:
    """Find embedded models whose parent process has ended."""
    left = [
        process
        for process in psutil.process_iter(["pid", "ppid", "cmdline", "memory_info", "uids"])
        if SERVER in (process.info["cmdline"] or ()) and _is_orphan(process.info["ppid"])
        and process.info["uids"].effective == os.geteuid()
    ]  # fmt: skip
    return [
        warning(
            f"process {each.info['pid']}, an embedded model, was left running and uses"
            f" {human_size(each.info['memory_info'].rss)}",
            f"kill {each.info['pid']}",
        )
        for each in left
    ] or [ok("no processes are left")]


def _is_orphan(parent: int) -> bool:
    # Orphans are adopted by process 1, which in a container may be Hermes itself, or by the user's
    # session.
    try:
        found = psutil.Process(parent)
        if parent == INIT:
            return not any("hermes" in word for word in found.cmdline())
        return found.name() in ADOPTERS
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def caches(context: DoctorContext) -> Findings:
    damaged: list[Path] = []
    cache = context.home.cache
    for path in (*sorted(cache.glob("models/*.json")), *sorted(cache.glob("mcp/*.json"))):
        try:
            msgspec.json.decode(path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError):
            damaged.append(path)
    if not damaged:
        return [ok("the caches can be read")]

    def rename() -> str:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        for path in damaged:
            path.rename(path.with_name(f"{path.name}.damaged-{stamp}"))
        return f"renamed {many(len(damaged), 'damaged cache file')}"

    text = f"{many(len(damaged), 'cache file')} cannot be read: {_first_paths(damaged)}"
    return [warning(text, "`hermes doctor --fix` renames them", rename)]


def downloads(context: DoctorContext) -> Findings:
    folder, now = context.home.models, time.time()
    parts = sorted(folder.glob("*.part")) if folder.is_dir() else []
    return [
        warning(
            f"{tilde(part)} ({human_size(part.stat().st_size)}) is an unfinished download",
            f"hermes local pull resumes it; or: rm {tilde(part)}",
        )
        for part in parts
        if part.stat().st_mtime < now - DAY
    ] or [ok("no unfinished downloads")]


# Log files: their size and recent errors.

MAX_COUNTED = 10_000
SHOWN_CHARS = 100


def logs(context: DoctorContext) -> Findings:
    folder = context.home.logs
    files = [file for name in FILES for file in files_of(folder / name)]
    size = sum(file.stat().st_size for file in files)
    limits = context.settings.logging
    allowed = 2 * len(FILES) * (limits.backups + 1) * limits.max_bytes
    found: Findings = []
    if limits.max_bytes and size > max(allowed, limits.max_bytes):
        text = f"the log files take {human_size(size)}, more than the settings allow"
        found.append(warning(text, f"delete old files in {folder}"))
    since = LogFilter(level="ERROR", since=time.time() - DAY)
    errors = last_entries(folder / ERRORS, MAX_COUNTED, since)
    if errors:
        last = " ".join(errors[-1].message.split())[:SHOWN_CHARS]
        text = f"{many(len(errors), 'error')} in the last 24 hours, the last: {last}"
        found.append(warning(text, "hermes logs errors --since 1d"))
    return found or [ok(f"{human_size(size)}, no errors in the last 24 hours")]


# Clock, time zone and terminal.

MAX_SKEW_SECONDS = 60.0  #: Larger differences make signatures and logins fail.
NARROW = 40


async def clock(context: DoctorContext) -> Findings:
    """Compare the clock with the endpoint that another check asks anyway."""
    target = context.main_target()
    if target is None or target.provider == LOCAL:
        return []
    await context.probe.answer(target)
    host, skew = next(iter(context.probe.skews.items()), ("", 0.0))
    if not host:
        return []
    if abs(skew) <= MAX_SKEW_SECONDS:
        return [ok(f"the clock agrees with that of {host}")]
    way = "fast" if skew > 0 else "slow"
    text = f"the clock is {human_duration(abs(skew))} {way}, compared with {host}"
    return [problem(text, "set the clock (timedatectl set-ntp true): logins and signatures fail")]


def time_zone(context: DoctorContext) -> Findings:
    here = context.clock.now().astimezone().tzname()
    return [ok(context.settings.timezone or f"the machine's time zone, {here}, is used")]


def terminal(context: DoctorContext) -> Findings:
    screen = context.screen
    if not screen.is_terminal:
        return [ok("not a terminal: plain text is written")]
    found: Findings = []
    preferred = locale.getpreferredencoding(False)
    if "utf" not in screen.encoding.lower() or "utf" not in preferred.lower():
        text = f"the terminal's encoding is {screen.encoding} ({preferred}), not UTF-8"
        found.append(warning(text, "export LANG=C.UTF-8 before starting Hermes"))
    if screen.term in ("", "dumb", "unknown"):
        text = f"TERM is {screen.term or 'not set'}: the plain prompt is used"
        found.append(warning(text, "export TERM=xterm-256color if your terminal can do that"))
    if screen.columns < NARROW:
        text = f"the terminal has {screen.columns} columns"
        found.append(warning(text, f"make it at least {NARROW} columns wide"))
    colours = f"{screen.colours} colours" if screen.colours else "no colours"
    return found or [ok(f"{screen.term}, {screen.columns} columns, UTF-8, {colours}")]


# Programs of this machine: general ones and those of the chosen backend.


PROGRAMS = {
    "git": ("no checkpoints, no undo of skills, no worktrees, no plugins from repositories", "git"),
    "rg": ("searching files is slower", "ripgrep"),
    "bash": ("commands run in plain sh", "bash"),
}
"""The effect of a missing program, and the package to install."""

ENGINES = ("docker", "podman")
BACKEND_PROGRAMS = {
    "sandbox": (("bwrap",), "bubblewrap"),
    "ssh": (("ssh",), "openssh-client"),
    "docker": (ENGINES, "docker.io or podman"),
}
"""Programs of a backend, of which one is enough, and the package to install."""


def programs(_: DoctorContext) -> Findings:
    return [
        warning(f"{name} is not installed: {lost}", f"install {package}")
        for name, (lost, package) in PROGRAMS.items()
        if not is_installed(name)
    ] or [ok(f"{', '.join(PROGRAMS)} are installed")]


def backend(context: DoctorContext) -> Findings:
    """Check the requirements of `terminal.backend`."""
    settings = context.settings.terminal
    name = settings.backend
    manifest = find_terminal(name)
    programs, package = BACKEND_PROGRAMS.get(name, ((), ""))
    if manifest:
        programs, package = manifest.programs, manifest.install
    if name == "docker" and settings.container_program:
        programs = (settings.container_program,)
    there = [each for each in programs if is_installed(each)]
    if programs and not there:
        missing = " and ".join(programs) + (" is" if len(programs) == 1 else " are")
        text = f"terminal.backend is {name}, but {missing} not installed"
        return [problem(text, f"install {package}, or: hermes config set terminal.backend local")]
    found = [*_engine(name, there), *_ssh(context)]
    if name in ("local", "sandbox") and not Path(settings.cwd).expanduser().is_dir():
        text = f"terminal.cwd: there is no folder {settings.cwd}"
        found.append(problem(text, "hermes config set terminal.cwd ."))
    found += [
        problem(f"terminal.backend is {name}, but {key} is not set", f"hermes config set {key} KEY")
        for key in (manifest.secrets if manifest else ())
        if not context.loaded.variable(key)
    ]
    return found or [_boundary(context) if name == "local" else ok(f"commands run in {name}")]


def _boundary(context: DoctorContext) -> DoctorFinding:
    """Check what keeps commands from Hermes' own files."""
    boundary = open_boundary(context.home, context.settings)
    if boundary.holds:
        return ok(f"commands run in local; {boundary.describe()}")
    advice = "install util-linux and allow user namespaces, or use a kernel with Landlock"
    if context.settings.security.boundary != "auto":
        advice = "hermes config set security.boundary auto"
    return warning(boundary.describe(), advice)


def _engine(name: str, there: list[str]) -> Findings:
    """Check that the container engine answers, or that bubblewrap can create a sandbox."""
    if name == "docker":
        faults = {program: probe_program([program, "ps", "-q"]) for program in there}
        if all(faults.values()):
            program, why = next(iter(faults.items()))
            text = f"{program} is installed but does not answer: {why}"
            return [problem(text, f"start it, and check the output of `{program} info`")]
    if name == "sandbox" and (why := probe_program(SANDBOX_PROBE)):
        text = f"bubblewrap cannot create a sandbox here: {why}"
        return [problem(text, "allow user namespaces, or choose another terminal.backend")]
    return []


def _ssh(context: DoctorContext) -> Findings:
    settings = context.settings.terminal
    if settings.backend != "ssh":
        return []
    if not settings.ssh_host:
        return [problem("terminal.ssh_host is not set", "hermes config set terminal.ssh_host HOST")]
    key = Path(settings.ssh_key).expanduser()
    if settings.ssh_key and not key.is_file():
        text = f"terminal.ssh_key: there is no file {tilde(key)}"
        return [problem(text, "hermes config set terminal.ssh_key FILE")]
    if settings.ssh_key and key.stat().st_mode & OTHERS:
        text = f"others can read {tilde(key)}, so ssh will not use it"
        return [problem(text, f"chmod 600 {tilde(key)}")]
    return []

"""The one installer of Hermes: packages from lock files, by hash. Standard library only.

    setup.py LOCKFILE [--extra NAME]...   makes or updates `.venv` of the checkout
    setup.py --here [--extra NAME]...     adds to the environment of the running interpreter

The first form is called by `scripts/setup.sh`, which finds the interpreter. The lock files are
nested sets (`LOCKS`, narrow to wide): an environment never shrinks, so asking for
`requirements.lock` where the development set is installed updates the development set. Extras stay
installed as well, and are updated together with the lock. The second form is for a Hermes that was
installed as a package, which contains this file and the lock files.

`requirements-extras.lock` says under each package which extras need it (`# for otel, slack`). The
extra `base` is `requirements.lock` itself: it repairs a damaged environment. With `--extra`, one
line for each package that was installed goes to stdout.

What is kept in `.venv/hermes/`:
    stamp        the checkout's folder, the name of the installed lock, the extras; written last
    lock         a copy of the lock that was installed
    extras.lock  a copy of `requirements-extras.lock`, when there are extras
    unfinished   there while a set-up runs; found at the start, it means "begin again from nothing"
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

LOCKS = ("requirements.lock", "requirements-dev.lock")
EXTRAS_LOCK = "requirements-extras.lock"
BASE = "base"

PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<marker>\s*;)?")
EXTRAS = re.compile(r"^ +# for (.+)$", re.MULTILINE)

OFFLINE = "the package index cannot be reached; check the network connection and try again"
HINTS = (
    *((sign, OFFLINE) for sign in (
        "name resolution", "NewConnectionError", "Max retries", "ConnectTimeout", "dns error",
        "Network is unreachable", "Network connectivity is disabled", "error sending request",
        "(from versions: none)",
    )),
    ("externally-managed", "this Python belongs to the system; run Hermes from a checkout instead"),
    ("No space left", "the disk is full; free some space and run the command again"),
    ("ensurepip", "this Python cannot make environments; Debian, Ubuntu: apt install python3-venv"),
    ("No module named venv", "this Python has no venv module; apt install python3-venv"),
    ("No module named pip", "the environment has neither uv nor pip; install uv and try again"),
    ("do not match the hashes", "the package index serves other files than the lock names"),
    ("No matching distribution", "the package index does not offer a package for this Python"),
    ("Permission denied", "this folder is not yours to write; use a checkout of your own"),
)  # fmt: skip
DEFAULT_HINT = "check the network connection and run the command again"

OUTPUT_TAIL = 12
"""How many lines of a failed command are shown."""


class SetupFailed(Exception):
    """Set-up cannot continue; the text is shown to the user."""


class Pin(NamedTuple):
    """One package of a lock file."""

    name: str
    version: str
    conditional: bool
    """Needed only on some platforms or versions of Python."""
    extras: frozenset[str]
    text: str
    """The entry of the file, with its hashes."""


def read_pins(text: str) -> list[Pin]:
    """Return the packages of a lock file."""
    found = []
    for entry in re.split(r"\n(?=\S)", text):
        if pin := PIN.match(entry):
            extras = EXTRAS.search(entry)
            names = frozenset(extras[1].split(", ") if extras else ())
            conditional = bool(pin["marker"])
            found.append(Pin(pin["name"], pin["version"], conditional, names, entry.rstrip()))
    return found


def pins_of(locks: Path, extra: str) -> list[Pin]:
    """Return the packages of an extra; empty if no lock file names it."""
    if extra == BASE:
        return read_pins((locks / LOCKS[0]).read_text())
    return [pin for pin in read_pins((locks / EXTRAS_LOCK).read_text()) if extra in pin.extras]


def known_extras(locks: Path) -> set[str]:
    extras = (pin.extras for pin in read_pins((locks / EXTRAS_LOCK).read_text()))
    return {BASE}.union(*extras)


def normalise(name: str) -> str:
    """Return a package name in the form that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def versions(folders: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages installed in `folders`."""
    found: dict[str, str] = {}
    for each in metadata.distributions(path=list(folders)):
        name = each.metadata["Name"]  # None when its folder is damaged
        if name:
            found.setdefault(normalise(name), each.version)
    return found


def missing(pins: Sequence[Pin], there: dict[str, str]) -> bool:
    """Return whether a package is missing or has another version than the pinned ones.

    A package for some platforms may be absent, because only the installer evaluates markers.
    """
    by_name: dict[str, list[Pin]] = {}
    for pin in pins:
        by_name.setdefault(normalise(pin.name), []).append(pin)
    return any(
        there.get(name) not in {pin.version for pin in same}
        for name, same in by_name.items()
        if name in there or not all(pin.conditional for pin in same)
    )


class Progress:
    """A line on stderr that shows the current step and its duration."""

    def __init__(self, text: str) -> None:
        self.text = f"hermes: {text} ..."
        self.started = time.monotonic()
        self.done = threading.Event()
        self.live = sys.stderr.isatty()
        sys.stderr.write(self.text)
        sys.stderr.flush()
        if self.live:
            threading.Thread(target=self._tick, daemon=True).start()

    def _tick(self) -> None:
        while not self.done.wait(1):
            sys.stderr.write(f"\r{self.text} {self._seconds()} s")
            sys.stderr.flush()

    def _seconds(self) -> int:
        return round(time.monotonic() - self.started)

    def finish(self, word: str) -> None:
        self.done.set()
        start = f"\r{self.text}" if self.live else ""
        sys.stderr.write(f"{start} {word} after {self._seconds()} s\n")


class Environment:
    """The environment of one checkout and its records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.python = self.folder / "bin" / "python"
        self.records = self.folder / "hermes"
        self.stamp = self.records / "stamp"
        self.lock_copy = self.records / "lock"
        self.extras_copy = self.records / "extras.lock"
        self.unfinished = self.records / "unfinished"

    def _record(self) -> list[str]:
        """Return the lock that was installed, or was being installed, followed by the extras."""
        for record, line in ((self.unfinished, 0), (self.stamp, 1)):
            if record.exists():
                return record.read_text().splitlines()[line:]
        return []

    def installed(self) -> str | None:
        """Return the lock that was installed, or was being installed."""
        lines = self._record()
        return lines[0] if lines and lines[0] in LOCKS else None

    def extras(self) -> set[str]:
        """Return the installed extras, without those that no lock names any more."""
        names = {name for line in self._record()[1:] for name in line.split()}
        return names & known_extras(self.root) if names else names

    def folders(self) -> list[str]:
        return [str(each) for each in self.folder.glob("lib/python3*/site-packages")]

    def wider(self, lock: str) -> str:
        """Return the larger of `lock` and the installed lock."""
        installed = self.installed()
        return lock if installed is None else max(lock, installed, key=LOCKS.index)

    def packages_current(self, lock: str) -> bool:
        """Return whether exactly `lock` is installed and the installed extras are up to date. The
        checkout may have moved since."""
        if not self.stamp.exists() or self.installed() != lock or not self.whole():
            return False
        if self.extras_copy.exists() and not same(self.extras_copy, self.root / EXTRAS_LOCK):
            return False
        return same(self.lock_copy, self.root / lock)

    def whole(self) -> bool:
        """Return whether the last set-up was completed and its interpreter works."""
        if self.unfinished.exists():
            return False
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        try:
            return subprocess.run([self.python, "-I", "-c", check], check=False).returncode == 0
        except OSError:
            return False

    def link_source(self) -> None:
        """Make `hermes` importable from the present place of the checkout."""
        for packages in self.folders():
            replace(Path(packages, "hermes.pth"), f"{self.root / 'src'}\n".encode())

    def record(self, lock: str, extras: set[str]) -> None:
        """Mark the set-up as complete."""
        replace(self.lock_copy, (self.root / lock).read_bytes())
        if extras:
            replace(self.extras_copy, (self.root / EXTRAS_LOCK).read_bytes())
        else:
            self.extras_copy.unlink(missing_ok=True)
        self.unfinished.unlink(missing_ok=True)
        replace(self.stamp, f"{self.root}\n{lock}\n{' '.join(sorted(extras))}\n".encode())


def same(one: Path, other: Path) -> bool:
    """Return whether both files exist and have the same content."""
    return one.exists() and other.exists() and one.read_bytes() == other.read_bytes()


def replace(path: Path, data: bytes) -> None:
    """Replace the file atomically: a concurrent reader gets the old content or the new."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(data)
    draft.replace(path)


@contextmanager
def only_one(folder: Path) -> Iterator[int]:
    """Hold the set-up lock in `folder`.

    The kernel frees it when the last holder ends, so it cannot go stale. Installers inherit
    it, so the next set-up also waits for one that outlives its parent.
    """
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / "setup.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting = Progress("waiting for another set-up of this checkout")
            fcntl.flock(handle, fcntl.LOCK_EX)
            waiting.finish("ended")
        yield handle
    finally:
        os.close(handle)


def hint_for(output: str) -> str:
    """Return the next step for the user after a command failed with `output`."""
    text = output.lower()
    return next((hint for sign, hint in HINTS if sign.lower() in text), DEFAULT_HINT)


def run(command: Sequence[str | Path], held: int) -> None:
    """Run a step quietly. Raise `SetupFailed` with the end of its output and a hint."""
    result = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(held,),
    )
    if result.returncode:
        tail = "\n".join(f"  {line}" for line in result.stdout.splitlines()[-OUTPUT_TAIL:])
        raise SetupFailed(f"{tail}\nhermes: set-up failed; {hint_for(result.stdout)}")


def install(python: Path, files: Sequence[Path], uv: str | Path | None, held: int) -> None:
    """Install the packages of lock files with uv if it works, otherwise with pip."""
    wanted: list[str | Path] = ["--require-hashes"]
    for file in files:
        wanted += ["-r", file]
    if uv:
        target: list[str | Path] = ["--python", python]
        with suppress(SetupFailed, OSError):  # an old or misconfigured uv: use pip
            run([uv, "pip", "install", "--compile-bytecode", *target, *wanted], held)
            return
    run([*pip_install(python), *wanted], held)


def pip_install(python: Path) -> list[str | Path]:
    quiet = ["--disable-pip-version-check", "--no-input", "-q"]
    return [python, "-m", "pip", "install", *quiet]


def own_uv(environment: Environment, lock: str, held: int) -> Path | None:
    """Install the uv that `lock` pins and return its path, or None. It installs the other packages
    in a third of the time that pip needs."""
    text = (environment.root / lock).read_text()
    found = next((pin for pin in read_pins(text) if pin.name == "uv"), None)
    if not found:
        return None
    alone = environment.records / "uv.txt"
    alone.write_text(f"{found.text}\n")
    with suppress(SetupFailed):
        run([*pip_install(environment.python), "--require-hashes", "-r", alone], held)
        return environment.folder / "bin" / "uv"
    return None


def write_extras(file: Path, locks: Path, extras: set[str], without: set[str]) -> list[Path]:
    """Write the packages of `extras` to a lock file, except those in `without`, which are pinned
    already. Return the files to install: none if nothing has to be added."""
    entries = {
        pin.text: pin
        for extra in sorted(extras)
        for pin in pins_of(locks, extra)
        if normalise(pin.name) not in without
    }
    if not entries:
        return []
    file.write_text("\n".join([*entries, ""]))
    return [file]


def build(environment: Environment, lock: str, extras: set[str], held: int) -> None:
    """Install `lock` and `extras` into the environment. Create it anew unless a complete one can be
    updated."""
    fresh = not environment.whole()
    if fresh:
        shutil.rmtree(environment.folder, ignore_errors=True)
    environment.records.mkdir(parents=True, exist_ok=True)
    before = environment.stamp.read_text() if environment.stamp.exists() else None
    environment.unfinished.write_text(f"{lock}\n{' '.join(sorted(extras))}\n")
    environment.stamp.unlink(missing_ok=True)
    if fresh:
        run([sys.executable, "-m", "venv", environment.folder], held)
        if any(Path(each, "setuptools").exists() for each in environment.folders()):
            # A venv of Python 3.11 contains it, but nothing here uses its 8 MB.
            run([environment.python, "-m", "pip", "uninstall", "-q", "-y", "setuptools"], held)
    text = (environment.root / lock).read_text()
    pinned = {normalise(pin.name) for pin in read_pins(text)}
    more = write_extras(environment.records / "extras.txt", environment.root, extras, pinned)
    uv = shutil.which("uv") or own_uv(environment, lock, held)
    try:
        install(environment.python, [environment.root / lock, *more], uv, held)
    except SetupFailed:  # the installer refused: the old packages are intact
        environment.unfinished.unlink()
        if before is not None:
            environment.stamp.write_text(before)
        raise
    environment.link_source()
    source = environment.root / "src"
    run([environment.python, "-I", "-m", "compileall", "-q", source], held)
    environment.record(lock, extras)


def set_up(root: Path, lock: str, wanted: Sequence[str]) -> None:
    """Ensure that at least `lock` and the extras `wanted` are installed in a checkout."""
    with only_one(root / ".cache") as held:
        environment = Environment(root)
        lock = environment.wider(lock)
        extras = (environment.extras() | set(wanted)) - {BASE}
        before = versions(environment.folders())
        if environment.packages_current(lock) and not any(
            extra == BASE or missing(pins_of(root, extra), before) for extra in wanted
        ):
            environment.link_source()
            environment.record(lock, extras)
            return
        if not environment.whole():
            text = "setting up the environment in .venv (once)"
        elif wanted:
            text = f"installing {' and '.join(wanted)} into .venv"
        else:
            text = "updating the environment in .venv"
        with progress(text):
            build(environment, lock, extras, held)
        if wanted:
            print_changes(before, versions(environment.folders()))


def add_here(locks: Path, wanted: Sequence[str]) -> None:
    """Ensure that the extras `wanted` are installed for the running interpreter."""
    records = Path(sys.prefix) / "hermes"
    with only_one(records) as held:
        before = versions(sys.path)
        needed = {
            extra for extra in wanted if extra == BASE or missing(pins_of(locks, extra), before)
        }
        if not needed:
            return
        files = write_extras(records / "extras.txt", locks, needed, without=set())
        with progress(f"installing {' and '.join(wanted)} into {sys.prefix}"):
            install(Path(sys.executable), files, shutil.which("uv"), held)
        print_changes(before, versions(sys.path))


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a line while the block runs, and then its result."""
    line = Progress(text)
    try:
        yield
    except BaseException as error:
        line.finish("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    line.finish("done")


def print_changes(before: dict[str, str], after: dict[str, str]) -> None:
    for name, version in sorted(after.items()):
        if before.get(name) != version:
            print(name, version)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="setup.py", allow_abbrev=False)
    parser.add_argument("lock", nargs="?", default=LOCKS[0])
    parser.add_argument("--extra", action="append", default=[], dest="extras", metavar="NAME")
    parser.add_argument("--here", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.lock not in LOCKS:
        print(f"hermes: unknown lock {asked.lock!r}; one of {', '.join(LOCKS)}", file=sys.stderr)
        return 2
    folder = Path(__file__).resolve().parent
    root = folder if (folder / EXTRAS_LOCK).exists() else folder.parent
    try:
        known = known_extras(root) if asked.extras else set()
        for name in set(asked.extras) - known:  # an update may drop one
            print(f"hermes: there is no extra {name!r} in this version", file=sys.stderr)
        extras = [name for name in asked.extras if name in known]
        if asked.here:
            add_here(root, extras)
        else:
            set_up(root, asked.lock, extras)
    except SetupFailed as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"hermes: set-up failed: {error}; {hint_for(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

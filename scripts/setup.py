"""Makes or updates the environment in `.venv` from a lock file. Standard library only.

Called by `scripts/setup.sh`, which finds the interpreter. The lock files are nested sets
(`LOCKS`, narrow to wide): an environment never shrinks, so asking for `requirements.lock` where
the development set is installed updates the development set.

What is kept in `.venv/hermes/`:
    stamp        the checkout's folder and the name of the installed lock; written last
    lock         a copy of the lock that was installed
    unfinished   there while a set-up runs; found at the start, it means "begin again from nothing"
"""

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
from pathlib import Path

LOCKS = (
    "requirements.lock",
    "requirements-local.lock",
    "requirements-platforms.lock",
    "requirements-dev.lock",
)

HINTS = (
    ("No space left", "the disk is full; free some space and run the command again"),
    ("ensurepip", "this Python cannot make environments; Debian, Ubuntu: apt install python3-venv"),
    ("No module named venv", "this Python has no venv module; apt install python3-venv"),
    ("No module named pip", "the environment has no pip; remove .venv and run the command again"),
    ("do not match the hashes", "the package index serves other files than the lock names"),
    ("No matching distribution", "the package index does not offer a package for this Python"),
    ("Permission denied", "this folder is not yours to write; use a checkout of your own"),
)
DEFAULT_HINT = "check the network connection and run the command again"

OUTPUT_TAIL = 12
"""How many lines of a failed command are shown."""


class SetupFailed(Exception):
    """Set-up cannot go on; the text is for the user."""


class Progress:
    """One line on stderr: what is being done and for how long."""

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
        self.unfinished = self.records / "unfinished"

    def installed(self) -> str | None:
        """The lock that was installed, or was being installed, here."""
        for record, line in ((self.unfinished, 0), (self.stamp, 1)):
            if record.exists():
                lines = record.read_text().splitlines()
                return lines[line] if line < len(lines) and lines[line] in LOCKS else None
        return None

    def wider(self, lock: str) -> str:
        """The wider of `lock` and what is installed."""
        installed = self.installed()
        return lock if installed is None else max(lock, installed, key=LOCKS.index)

    def packages_current(self, lock: str) -> bool:
        """Whether exactly `lock` is installed, wherever the checkout was at the time."""
        if not self.stamp.exists() or self.installed() != lock or not self.whole():
            return False
        return self.lock_copy.read_bytes() == (self.root / lock).read_bytes()

    def whole(self) -> bool:
        """Whether no set-up was cut short here and the interpreter runs and is new enough."""
        if self.unfinished.exists():
            return False
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        try:
            return subprocess.run([self.python, "-I", "-c", check], check=False).returncode == 0
        except OSError:
            return False

    def link_source(self) -> None:
        """Makes `hermes` importable from where the checkout is now."""
        for packages in self.folder.glob("lib/python3*/site-packages"):
            replace(packages / "hermes.pth", f"{self.root / 'src'}\n".encode())

    def record(self, lock: str) -> None:
        """Marks the set-up as complete."""
        replace(self.lock_copy, (self.root / lock).read_bytes())
        self.unfinished.unlink(missing_ok=True)
        replace(self.stamp, f"{self.root}\n{lock}\n".encode())


def replace(path: Path, data: bytes) -> None:
    """Whoever starts meanwhile reads the old file or the new one, never a part."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(data)
    draft.replace(path)


@contextmanager
def only_one(root: Path) -> Iterator[int]:
    """Holds the set-up lock of this checkout.

    The kernel frees it when the last holder ends, so it cannot go stale. Installers inherit it:
    one that outlives its parent still keeps the next set-up waiting.
    """
    place = root / ".cache" / "setup.lock"
    place.parent.mkdir(exist_ok=True)
    handle = os.open(place, os.O_CREAT | os.O_RDWR, 0o644)
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
    """What to do next after a step failed with `output`."""
    text = output.lower()
    return next((hint for sign, hint in HINTS if sign.lower() in text), DEFAULT_HINT)


def run(command: Sequence[str | Path], held: int) -> None:
    """Runs a step quietly; on failure raises with the end of its output and a hint."""
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


def install(environment: Environment, lock: str, held: int) -> None:
    """Installs the packages of `lock` with uv when it is there and works, else with pip."""
    wanted: list[str | Path] = ["--require-hashes", "-r", environment.root / lock]
    quiet = ["--disable-pip-version-check", "--no-input", "-q"]
    pip: list[str | Path] = [environment.python, "-m", "pip", "install", *quiet]
    uv = shutil.which("uv") or own_uv(environment, lock, pip, held)
    if uv:
        target: list[str | Path] = ["--python", environment.python]
        with suppress(SetupFailed, OSError):  # an old, misconfigured uv: pip has the last word
            run([uv, "pip", "install", "--compile-bytecode", *target, *wanted], held)
            return
    run([*pip, *wanted], held)


def own_uv(
    environment: Environment, lock: str, pip: Sequence[str | Path], held: int
) -> Path | None:
    """The uv that `lock` has among its packages: installed first, it installs the others in a
    third of the time."""
    text = (environment.root / lock).read_text()
    found = re.search(r"^uv==.*(?:\n +--hash=.*)*", text, re.MULTILINE)
    if not found:
        return None
    alone = environment.records / "uv.txt"
    alone.write_text(f"{found[0]}\n")
    with suppress(SetupFailed):
        run([*pip, "--require-hashes", "-r", alone], held)
        return environment.folder / "bin" / "uv"
    return None


def build(environment: Environment, lock: str, held: int) -> None:
    """Brings the environment to `lock`, from nothing unless a finished one can be updated."""
    fresh = not environment.whole()
    if fresh:
        shutil.rmtree(environment.folder, ignore_errors=True)
    environment.records.mkdir(parents=True, exist_ok=True)
    before = environment.stamp.read_text() if environment.stamp.exists() else None
    environment.unfinished.write_text(f"{lock}\n")
    environment.stamp.unlink(missing_ok=True)
    if fresh:
        run([sys.executable, "-m", "venv", environment.folder], held)
    try:
        install(environment, lock, held)
    except SetupFailed:  # the installer refused by itself: what was there before is still whole
        environment.unfinished.unlink()
        if before is not None:
            environment.stamp.write_text(before)
        raise
    environment.link_source()
    source = environment.root / "src"
    run([environment.python, "-I", "-m", "compileall", "-q", source], held)
    environment.record(lock)


def set_up(root: Path, lock: str) -> None:
    """Makes sure that at least `lock` is installed in the checkout at `root`."""
    with only_one(root) as held:
        environment = Environment(root)
        lock = environment.wider(lock)
        if environment.packages_current(lock):
            environment.link_source()
            environment.record(lock)
            return
        update = environment.whole()
        progress = Progress(
            "updating the environment in .venv"
            if update
            else "setting up the environment in .venv (once)"
        )
        try:
            build(environment, lock, held)
        except BaseException as error:
            progress.finish("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        progress.finish("done")


def main(arguments: Sequence[str]) -> int:
    root = Path(__file__).resolve().parent.parent
    (lock,) = arguments
    if lock not in LOCKS:
        print(f"hermes: unknown lock {lock!r}; one of {', '.join(LOCKS)}", file=sys.stderr)
        return 2
    try:
        set_up(root, lock)
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

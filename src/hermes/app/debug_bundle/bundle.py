"""The bundle: the summary, what the doctor says and the ends of the log files, in one file."""

import io
import tarfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from hermes.app.debug_bundle.cleaning import Cleaner
from hermes.app.debug_bundle.known_secrets import known_secrets
from hermes.app.debug_bundle.summary import summary
from hermes.app.doctor.findings import Outcome
from hermes.app.doctor.visit import visit
from hermes.app.log_reader import files_of
from hermes.app.logs import FILES
from hermes.config.home import Home, ensure_hermes_home, unusable
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, UsageError
from hermes.util import atomic
from hermes.util.clock import SystemClock

WINDOW = 1_000_000
"""Bytes at the end of a log that are looked at. More than is shown is cleaned, so that a secret of
several lines is seen whole."""
ARCHIVES = (".tar.gz", ".tgz")


class Part(msgspec.Struct, frozen=True):
    name: str
    text: str


async def parts(home: Home, loaded: Loaded | None, lines: int) -> list[Part]:
    """What goes into the bundle, cleaned. Raises `HermesError` rather than letting one of the
    secrets we know through."""
    secrets = known_secrets(home, loaded)
    cleaner = Cleaner(home, secrets)
    outcomes = await visit(home, SystemClock(), offline=True)
    found = [
        Part("summary.txt", await summary(home, loaded)),
        Part("doctor.txt", cleaner.clean("\n".join(_findings(outcomes)))),
        *(Part(name, _tail(home.logs / name, lines, cleaner)) for name in FILES),
    ]
    _refuse_leaks(found, secrets)
    return [part for part in found if part.text]


def _findings(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        f"{each.level:<8} {outcome.name}: {each.text}"
        for outcome in outcomes
        for each in outcome.found
    ]


def _tail(path: Path, count: int, cleaner: Cleaner) -> str:
    """The last lines of a log, with those of the file before it when it is short."""
    text = ""
    for file in files_of(path)[:2]:
        text = _end_of(file) + text
        if text.count("\n") >= count:
            break
    lines = cleaner.clean(text).splitlines() if text else []
    return "\n".join(lines[max(0, len(lines) - count) :])


def _end_of(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(max(0, size - WINDOW))
            data = opened.read()
    except OSError as error:
        raise unusable(file, error) from error
    if size > WINDOW:  # the first line may begin in the middle of a secret
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _refuse_leaks(found: Sequence[Part], secrets: frozenset[str]) -> None:
    """The last look. What is short may be an ordinary word."""
    for part in found:
        if any(len(secret) >= 8 and secret in part.text for secret in secrets):
            raise HermesError(
                f"a secret would have been left in {part.name}; nothing was written",
                hint="`hermes dump` and `hermes logs` show the same one by one",
            )


def bundle_path(home: Home) -> Path:
    """Where it goes unless the user says so: a private folder of the home."""
    folder = ensure_hermes_home(home) / "debug"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from error
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return folder / f"hermes-debug-{stamp}.txt"


def write(path: Path, found: Sequence[Part]) -> None:
    """One text, or an archive when the name ends in .tar.gz; only its owner may read it."""
    if path.exists():
        raise UsageError(f"{path} exists already", hint="choose another name with -o")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    data = _archive(found) if path.name.endswith(ARCHIVES) else _text(found)
    try:
        atomic.write_bytes(path, data, mode=0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}"
        ) from error


def _text(found: Sequence[Part]) -> bytes:
    return "".join(f"===== {part.name} =====\n{part.text}\n\n" for part in found).encode()


def _archive(found: Sequence[Part]) -> bytes:
    """Nothing in it tells of the user: neither names nor numbers of an owner."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in found:
            data = f"{part.text}\n".encode()
            entry = tarfile.TarInfo(f"hermes-debug/{part.name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()

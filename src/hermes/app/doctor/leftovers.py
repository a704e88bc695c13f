"""What crashed runs left behind: temporary files, processes, damaged caches."""

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import psutil

from hermes.app.doctor.findings import Found, fine, warning
from hermes.app.doctor.scene import Scene
from hermes.config.home import Home, tilde
from hermes.util.text import human_size, many

HOUR, DAY = 3600, 24 * 3600
FOLDERS = ("hermes-shell-*", "hermes-code-*", "hermes-acp-*", "hermes-skill-*")
"""Of the system's folder for temporary files. Those of the editor may hold an unsaved text."""
UNFINISHED = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
"""A file that was to replace another one; see `util.atomic`."""
OURS = (
    "",
    "cache",
    "cache/models",
    "cache/mcp",
    "cron",
    "logs",
    "mcp-tokens",
    "memories",
    "pairing",
)
SERVER = "hermes.providers.local.serve"
INIT = 1
ADOPTERS = ("systemd", "init", "launchd")


def files(scene: Scene) -> Found:
    now = time.time()
    stale = [*_in_home(scene.home, now), *_in_temporary(now)]
    if not stale:
        return [fine("no temporary files are left")]

    def remove() -> str:
        for path in stale:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return f"removed {many(len(stale), 'temporary file')}"

    few = ", ".join(tilde(path) for path in stale[:3])
    text = f"{many(len(stale), 'temporary file')} of crashed runs: {few}"
    return [warning(text, "`hermes doctor --fix` removes them", remove)]


def _in_home(home: Home, now: float) -> Iterator[Path]:
    for name in OURS:
        folder = home.root / name
        for path in folder.iterdir() if folder.is_dir() else ():
            if UNFINISHED.fullmatch(path.name) and _is_old(path, now - HOUR):
                yield path


def _in_temporary(now: float) -> Iterator[Path]:
    folder = Path(tempfile.gettempdir())
    candidates = [
        path
        for pattern in FOLDERS
        for path in folder.glob(pattern)
        if _is_own_folder(path) and _is_old(path, now - DAY)
    ]
    in_use = "\n".join(_mentioned()) if candidates else ""
    yield from (path for path in candidates if str(path) not in in_use)


def _is_own_folder(path: Path) -> bool:
    facts = path.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _is_old(path: Path, before: float) -> bool:
    try:
        inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
        return all(each.lstat().st_mtime < before for each in (path, *inside))
    except OSError:  # it is being worked on
        return False


def _mentioned() -> Iterator[str]:
    """Command lines and working folders of all processes that we may look at."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        yield " ".join(process.info["cmdline"] or ())
        yield process.info["cwd"] or ""


def processes(_: Scene) -> Found:
    """A model that outlived the program that started it holds its memory for nothing."""
    left = [
        process
        for process in psutil.process_iter(["pid", "ppid", "cmdline", "memory_info", "uids"])
        if SERVER in (process.info["cmdline"] or ()) and _is_orphan(process.info["ppid"])
        and process.info["uids"].effective == os.geteuid()
    ]  # fmt: skip
    return [
        warning(
            f"process {each.info['pid']}, an embedded model, was left behind and holds"
            f" {human_size(each.info['memory_info'].rss)}",
            f"kill {each.info['pid']}",
        )
        for each in left
    ] or [fine("no processes are left")]


def _is_orphan(parent: int) -> bool:
    """Orphans belong to the first process, which in a container may be Hermes itself, or to that
    of the user's session."""
    try:
        found = psutil.Process(parent)
        if parent == INIT:
            return not any("hermes" in word for word in found.cmdline())
        return found.name() in ADOPTERS
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def caches(scene: Scene) -> Found:
    """A damaged cache is only read again and again for nothing."""
    damaged = [
        path
        for folder in (scene.home.cache / "models", scene.home.cache / "mcp")
        for path in (sorted(folder.glob("*.json")) if folder.is_dir() else ())
        if not _is_json(path)
    ]
    if not damaged:
        return [fine("the caches can be read")]

    def put_aside() -> str:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        for path in damaged:
            path.rename(path.with_name(f"{path.name}.damaged-{stamp}"))
        return f"put aside {many(len(damaged), 'damaged cache file')}"

    few = ", ".join(tilde(path) for path in damaged[:3])
    text = f"{many(len(damaged), 'cache file')} cannot be read: {few}"
    return [warning(text, "`hermes doctor --fix` puts them aside", put_aside)]


def _is_json(path: Path) -> bool:
    try:
        msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def downloads(scene: Scene) -> Found:
    folder, now = scene.home.models, time.time()
    parts = sorted(folder.glob("*.part")) if folder.is_dir() else []
    return [
        warning(
            f"{tilde(part)} ({human_size(part.stat().st_size)}) is a download that did not end",
            f"hermes local pull goes on with it; or: rm {tilde(part)}",
        )
        for part in parts
        if part.stat().st_mtime < now - DAY
    ] or [fine("no download was left unfinished")]

"""The home: is it there, can it be written, and is it private?"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from hermes.app.doctor.findings import Finding, Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config.home import Home, ensure_hermes_home, tilde
from hermes.util.text import human_size, many

PRIVATE_FILES = (
     ".env", "auth.json", "state.db", "mcp-tokens/*.json", "pairing/*.json",
    "shell-hooks-allowlist.json",
)  # fmt: skip
PRIVATE_FOLDERS = ("mcp-tokens", "pairing")
OTHERS = 0o077

LITTLE_ROOM, NO_ROOM = 500_000_000, 50_000_000
FEW_FILES = 1000
NETWORK = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb3", "afs", "afpfs", "ncpfs", "9p", "ceph",
     "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "webdav", "davfs"}
)  # fmt: skip


def folder(scene: Scene) -> Found:
    home = scene.home
    if not home.root.exists():
        return [
            warning(
                f"{home.display()} does not exist yet",
                "it is made when Hermes is first used",
                lambda: f"made {tilde(ensure_hermes_home(home))}",
            )
        ]
    if not home.root.is_dir():
        return [problem(f"{home.display()} is not a folder", "set HERMES_HOME to a folder")]
    try:
        with tempfile.TemporaryFile(dir=home.root):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return [
            problem(
                f"{home.display()} cannot be written to: {reason}",
                "change its owner or permissions, or set HERMES_HOME to another folder",
            )
        ]
    return [fine(f"{home.display()} can be written to")]


def owner(scene: Scene) -> Found:
    root = scene.home.root
    if not root.is_dir():
        return []
    me = os.geteuid()
    strange = [path for path in (root, *sorted(root.iterdir())) if path.lstat().st_uid != me]
    if not strange:
        return [fine("everything in it is yours")]
    few = ", ".join(tilde(path) for path in strange[:3])
    more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
    return [
        problem(
            f"not yours: {few}{more} (was Hermes started with sudo?)",
            f"sudo chown -R $(id -un) {shlex.quote(str(root))}",
        )
    ]


def permissions(scene: Scene) -> Found:
    """Keys and conversations are for one pair of eyes."""
    if os.name != "posix" or not scene.home.root.is_dir():
        return []
    found = list(_wide(scene.home))
    return found or [fine("only you can open your keys, logins and conversations")]


def _wide(home: Home) -> Iterator[Finding]:
    folders = [home.root, *(home.root / name for name in PRIVATE_FOLDERS)]
    files = [path for pattern in PRIVATE_FILES for path in sorted(home.root.glob(pattern))]
    for path, mode in (*((path, 0o700) for path in folders), *((path, 0o600) for path in files)):
        if path.exists() and path.stat().st_mode & OTHERS:
            yield _too_open(path, mode)


def _too_open(path: Path, mode: int) -> Finding:
    def close() -> str:
        path.chmod(mode)
        return f"{tilde(path)} now has mode {mode:o}"

    text = f"other users can open {tilde(path)} (mode {path.stat().st_mode & 0o777:o})"
    return warning(text, f"chmod {mode:o} {shlex.quote(str(path))}", close)


def room(scene: Scene) -> Found:
    place = _existing(scene.home.root)
    free = shutil.disk_usage(place).free
    files = os.statvfs(place)
    few = files.f_files > 0 and files.f_favail < FEW_FILES
    advice = f"free some space on the disk of {tilde(place)}"
    if free < NO_ROOM or (few and files.f_favail == 0):
        what = human_size(free) if free < NO_ROOM else "no file"
        return [problem(f"only {what} is left on the disk: writing will fail soon", advice)]
    if free < LITTLE_ROOM or few:
        left = human_size(free) if free < LITTLE_ROOM else many(files.f_favail, "file")
        return [warning(f"only {left} left on the disk", advice)]
    return [fine(f"{human_size(free)} free on its disk")]


def file_system(scene: Scene) -> Found:
    place = _existing(scene.home.root).resolve()
    mounts = [m for m in psutil.disk_partitions(all=True) if place.is_relative_to(m.mountpoint)]
    mount = max(mounts, key=lambda each: len(each.mountpoint), default=None)
    if mount is None:
        return [fine("the kind of its file system is not known")]
    elsewhere = "set HERMES_HOME to a folder on a disk of this machine"
    if "ro" in mount.opts.split(","):
        return [problem(f"{mount.mountpoint} is mounted read-only", elsewhere)]
    if mount.fstype in NETWORK:
        text = f"it is on a network file system ({mount.fstype}), where SQLite may lose data"
        return [warning(text, elsewhere)]
    return [fine(f"it is on {mount.fstype}, mounted at {mount.mountpoint}")]


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())

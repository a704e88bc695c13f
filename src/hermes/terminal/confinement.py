"""Confine a thread, and everything it starts, so that the folders of Hermes are out of reach.

Two mechanisms of Linux do this. A mount namespace covers each hidden folder with an empty,
read-only one, into which the allowed parts are mounted again. Landlock allows every path of the
machine except those. Both belong to the calling thread and are inherited by the programs it starts,
so that the rest of this process is not affected.

A program could still reach the files through another process of the same user (`/proc/PID/root`, a
debugger). A Landlock domain forbids that, so the namespace gets one too. Root could undo a mount,
load a module or read the disk, so those capabilities are removed.

Only the standard library is used: a bare Python also runs this file as a program (`main`).
"""

import ctypes
import errno
import json
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

Call = Callable[..., int]


class Hiding(NamedTuple):
    """Which folders are hidden, if they exist; all paths are absolute and without links."""

    hidden: tuple[str, ...]
    readable: tuple[str, ...] = ()  #: Parts of them that programs may read.
    writable: tuple[str, ...] = ()  #: Parts of them that programs may read and write.


class ConfinementError(OSError):
    """The system refuses a step of the confinement."""


def _libc(name: str) -> Call:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)

    def call(*arguments: Any) -> int:
        result = int(function(*arguments))
        if result < 0:
            number = ctypes.get_errno()
            raise ConfinementError(number, f"{name}: {os.strerror(number)}")
        return result

    return call


def _syscall(number: int, *arguments: Any) -> int:
    return _libc("syscall")(ctypes.c_long(number), *arguments)


# The mount namespace.

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_SLAVE = 16_384, 1 << 19
KEPT_FLAGS = {
    os.ST_NOSUID: 2,
    os.ST_NODEV: 4,
    os.ST_NOEXEC: 8,
    1024: 1024,
    2048: 2048,
    4096: 1 << 21,
}
"""Flags of `statvfs` and of `mount`. A remount must repeat them: clearing one is forbidden."""


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _libc("mount")(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )


def enter_namespace(hiding: Hiding) -> None:
    """Give this thread a mount namespace in which the hidden folders are empty.

    Needs CAP_SYS_ADMIN. A mount that is added to the machine later becomes visible as usual.
    """
    _libc("unshare")(CLONE_NEWNS)
    _hide_by_mounts(hiding)
    if os.geteuid() == 0:
        _cover_block_devices()
        drop_capabilities()


def enter_user_namespace(hiding: Hiding) -> None:
    """Do the same without privileges. Only a process with a single thread can do this."""
    user, group = os.geteuid(), os.getegid()
    _libc("unshare")(CLONE_NEWUSER | CLONE_NEWNS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - no pathlib here
            file.write(text)
    _hide_by_mounts(hiding)


def _hide_by_mounts(hiding: Hiding) -> None:
    _mount("none", "/", None, MS_REC | MS_SLAVE)
    for folder in _folders_above(hiding):
        if folder != "/" and os.access(os.path.dirname(folder), os.W_OK):  # noqa: PTH120
            # A mount point cannot be renamed, so another folder cannot take its place.
            _mount(folder, folder, None, MS_BIND | MS_REC)
    for folder in filter(os.path.isdir, hiding.hidden):
        with _opened((*hiding.readable, *hiding.writable), folder) as parts:
            _mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755")
            for path, descriptor in parts.items():
                if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    os.makedirs(path, exist_ok=True)  # noqa: PTH103
                else:
                    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
                _mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
                if path not in hiding.writable:
                    _remount_read_only(path)
        _remount_read_only(folder, MS_NOSUID | MS_NODEV, bind=False)


def _remount_read_only(path: str, flags: int = 0, *, bind: bool = True) -> None:
    kept = os.statvfs(path).f_flag if bind else 0
    for known, flag in KEPT_FLAGS.items():
        flags |= flag if kept & known else 0
    _mount("none", path, None, flags | MS_REMOUNT | MS_RDONLY | (MS_BIND if bind else 0))


@contextmanager
def _opened(paths: Sequence[str], folder: str) -> Iterator[dict[str, int]]:
    """Open the existing `paths` below `folder`, outer ones first."""
    found: dict[str, int] = {}
    try:
        for path in sorted(paths):
            if path.startswith(f"{folder}/") and os.path.lexists(path):
                found[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        yield found
    finally:
        for descriptor in found.values():
            os.close(descriptor)


def _cover_block_devices() -> None:
    """Root could read the files from the disk itself."""
    for path in _block_devices("/dev"):
        _mount("/dev/null", path, None, MS_BIND)


def _block_devices(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _block_devices(entry.path)
            elif stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
                yield entry.path


PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
DROPPED_CAPABILITIES = {
    "dac_read_search": 2, "sys_module": 16, "sys_rawio": 17, "sys_ptrace": 19, "sys_admin": 21,
    "sys_boot": 22, "mknod": 27, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40,
}  # fmt: skip


def drop_capabilities() -> None:
    """Keep programs that this thread starts from having what undoes a confinement."""
    for number in DROPPED_CAPABILITIES.values():
        try:
            _libc("prctl")(PR_CAPBSET_DROP, number, 0, 0, 0)
        except ConfinementError as error:
            if error.errno != errno.EINVAL:  # a capability that this kernel does not know
                raise


# Landlock.

LANDLOCK_CREATE, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT = 444, 445, 446
FS_RIGHTS = (13, 13, 14, 15, 15, 16)
"""How many access rights to files the versions 0, 1, 2, … of Landlock know."""
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_BLOCK, TRUNCATE, IOCTL_DEV = 1 << 11, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
SCOPE_ABSTRACT_SOCKETS = 1
SCOPES_SINCE = 6  #: Version of Landlock with scopes.


def landlock_version() -> int:
    """Return the version of Landlock; 0 if the kernel has none or it is switched off."""
    try:
        return _syscall(LANDLOCK_CREATE, None, 0, 1)
    except (OSError, AttributeError):
        return 0


def enter_domain(hiding: Hiding | None = None) -> None:
    """Restrict this thread with Landlock.

    Without `hiding`, files are not restricted; the programs it starts can then only not reach
    into processes outside. In the folders above a hidden one, nothing can be created, because
    Landlock cannot allow that without allowing the same inside the hidden one.
    """
    version = landlock_version()
    rights = (1 << FS_RIGHTS[min(version, len(FS_RIGHTS) - 1)]) - 1
    if hiding is None:
        rights = 0 if version >= SCOPES_SINCE else MAKE_BLOCK
    scope = SCOPE_ABSTRACT_SOCKETS if hiding is None and version >= SCOPES_SINCE else 0
    size = 24 if version >= SCOPES_SINCE else 8
    attributes = struct.pack("QQQ", rights, 0, scope)[:size]
    ruleset = _syscall(LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0)
    try:
        if hiding is not None:
            for path, wanted in _rules(hiding, rights):
                _allow(ruleset, path, wanted)
        _libc("prctl")(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _syscall(LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    if hiding is not None and os.geteuid() == 0:
        drop_capabilities()


def _rules(hiding: Hiding, rights: int) -> Iterator[tuple[str, int]]:
    yield "/", READ_DIR  # the names of files are not hidden
    above = listed_folders(hiding)
    for folder in above:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.path not in above and entry.path not in hiding.hidden:
                    yield entry.path, rights
    for path in hiding.readable:
        yield path, rights & (EXECUTE | READ_FILE | READ_DIR)
    for path in hiding.writable:
        yield path, rights


def listed_folders(hiding: Hiding) -> tuple[str, ...]:
    """Return the folders whose entries Landlock allows one by one: those above a hidden one.

    For root also /dev, whose block devices are left out.
    """
    above = _folders_above(hiding)
    return (*above, "/dev") if os.geteuid() == 0 else above


def _folders_above(hiding: Hiding) -> tuple[str, ...]:
    """Return the folders above the hidden ones, outer ones first."""
    found = set[str]()
    for folder in hiding.hidden:
        parts = folder.split("/")[1:-1]
        found |= {"/" + "/".join(parts[:count]) for count in range(len(parts) + 1)}
    return tuple(sorted(found))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone meanwhile, or not accessible to this user anyway
        return
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(kind) or stat.S_ISBLK(kind):
            return  # the target of a link has a rule of its own
        if not stat.S_ISDIR(kind):
            rights &= FILE_RIGHTS
        _syscall(LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str]) -> None:
    """Make a user namespace and keep it until standard input ends.

    Prints `ready` or the failure. The capabilities in the namespace end with the call of `cat`.
    """
    try:
        enter_user_namespace(Hiding(*(tuple(part) for part in json.loads(arguments[0]))))
    except OSError as error:
        print(error.strerror or error, flush=True)  # noqa: T201 - read by the parent process
        return
    print("ready", flush=True)  # noqa: T201 - as above
    os.execvp("cat", ["cat"])


if __name__ == "__main__":
    main(sys.argv[1:])
